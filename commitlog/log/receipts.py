"""What lies in the receipts topic, as every reader takes it: publishers, and a relay."""

from __future__ import annotations

import logging

from confluent_kafka import Message

from commitlog.domain.model.records.receipts import Receipts
from commitlog.errors import LogIntegrityError, MalformedRecordError
from commitlog.log.codec import UnknownSchemaError, decode_receipts

_logger = logging.getLogger("commitlog.receipts")


def receipts_in(message: Message) -> Receipts | None:
    """The receipts of a message, of whichever log; None, with a warning, where somebody has written what answers nobody.

    Raises:
        LogIntegrityError: they are of a newer version.
    """
    topic = message.topic()
    try:
        return decode_receipts(message.value() or b"")
    except UnknownSchemaError as unknown:
        raise LogIntegrityError(f"{topic} holds what this version does not know: {unknown}") from None
    except MalformedRecordError as malformed:
        place = f"{topic} partition {message.partition()} offset {message.offset()}"
        _logger.warning("%s is no receipt, and is left out: %s", place, malformed)
        return None
