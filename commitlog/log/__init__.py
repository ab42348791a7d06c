"""Everything that touches Kafka: the codec, topics, what counts of the results, the sequencer, checkpoints, publishing.

What others use: ``codec`` (bytes to values and back), ``results`` (the verified log), ``publisher`` (proposals out,
receipts in). The rules are not here but in ``domain``.
"""
