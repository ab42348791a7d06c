"""At a log's border, for programs that speak to Kafka by a schema registry: proposals come in, outcomes go out.

A log itself never asks a registry: what a verdict depends on is in the log (rules.md 2).
"""
