"""Stock DuckDB clients write: PostgreSQL's wire is passed through, and a client's commit becomes a proposal.

On the way of a commit:
    server          where clients connect
    session         one client, message after message; ``wire`` is what of PostgreSQL's protocol must be understood
    batch           the text of a commit, parsed strictly; ``forms`` are the statements that it may have
    base            the catalog as the client saw it when it began
    translation     what its transaction meant, as changes
    committing      the proposal, and what becomes of it; ``keeping`` keeps its files until the client has heard that
    showing         waits until readers see it
    refusing        what is said of a commit that is none of the log's; ``wording`` how a client hears it once
"""
