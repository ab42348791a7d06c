"""Deterministic simulation: the real processes of a log on machines, a Kafka and a catalog that are made of memory and chance.

`running` runs a seed and shortens what fails; `world` says who lives and what befalls them, `scheduling` whose turn it is and
what time it is, `kafka`, `catalog` what they talk to, `checking` what must hold, on a model of its own.
"""
