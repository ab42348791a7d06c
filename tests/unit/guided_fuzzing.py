"""Inputs that Atheris makes, who sees which branches each of them reaches: the codec, the decision, and proposals as JSON.

    python tests/unit/guided_fuzzing.py CORPUS -runs=100000

Run by itself, for Atheris ends the process. Its exit code is not 0, and it says the input, when anything but an answer or an
error of ours comes out. CORPUS is filled with records when it is empty, and keeps what reached something new.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris

# It settles who finds its modules; after that Atheris is asked first.
import commitlog  # noqa: F401

with atheris.instrument_imports(include=["commitlog"]):
    from commitlog.domain import model as m
    from commitlog.domain.model.json_lines import parse_proposal
    from commitlog.domain.model.malformed import MalformedProposal
    from commitlog.errors import CommitLogError, MalformedRecordError
    from commitlog.log import codec
    from commitlog.log.chain import Chain

    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    from deciding import DecidedLog, create_table, keyed_table
    from fuzzing import DECODERS, some_records
    from test_fuzzing import decided

SEED = 1
RECORDS = 130
LOG = DecidedLog()


def read(data: bytes) -> None:
    """Whatever reads bytes of a topic or a file reads these."""
    for decode in DECODERS.values():
        with suppress(MalformedRecordError):
            decode(data)
    with suppress(CommitLogError):
        Chain().take(data, 0)
    outcome = decided(LOG, data, 1)
    assert outcome.reason is not m.Reason.INTERNAL, outcome.detail
    asked = parse_proposal(data)
    if isinstance(asked, m.Proposal):
        with suppress(MalformedRecordError):
            codec.encode_proposal(asked)
    else:
        assert isinstance(asked, MalformedProposal)


def main() -> None:
    """Read what Atheris makes."""
    corpus = Path(sys.argv[1])
    if not any(corpus.iterdir()):
        for number, record in enumerate(some_records(RECORDS, SEED)):
            (corpus / f"record-{number}").write_bytes(record)
    LOG.commit(create_table())
    LOG.commit(keyed_table())
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
