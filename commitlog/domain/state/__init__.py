"""The sequencer's memory: how it is indexed, how an outcome changes it, what it forgets, how it is written down."""
