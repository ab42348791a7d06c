"""At a log's border, for programs that speak to Kafka by a schema registry: proposals come in, outcomes go out.

A log itself never asks a registry: what a verdict depends on is in the log (rules.md 2).

    relay           both directions, in one process
    inward          proposals into the log, and their receipts back
    outward         outcomes to the border
    turn            which of several relays gives outcomes
    registry        a schema registry; ``topics`` are the border's
    progress        how far relays are
"""
