"""Deterministic simulation: the real processes of a log on machines, a Kafka and a catalog that are made of memory and chance.

What a run is made of:
    running         runs a seed, and shortens what fails
    world           who lives, and what befalls them; ``writing`` is what they propose, ``trimming`` what is archived
    scheduling      whose turn it is, and what time it is
    choices         where chance comes from
    kafka, catalog  what they talk to
    checking        what must hold, on a model of its own; ``serializing`` of histories of rows
"""
