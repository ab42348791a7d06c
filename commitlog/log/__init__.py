"""Everything that touches Kafka: the codec, topics, what counts of the results, the sequencer, checkpoints, publishing.

What others use: ``codec`` (bytes to values and back), ``results`` (the verified log), ``publisher`` (proposals out,
receipts in). The rules are not here but in ``domain``.

The results, as every reader takes them:
    chain           which records count
    results         the accepted records, in order and decoded; ``read_ahead`` reads on while their reader waits
    chain_walk      the whole chain looked through, for whoever verifies it
    trims           what was deleted by our own doing, and where the results begin now
The sequencer:
    sequencer       its process: load, take over, serve
    replica         the state that follows the results; ``checkpoint`` saves it
    heartbeats      how a standby hears that the active one lives
    active          the work of the active one, in rounds; ``gathering`` says how long a batch waits for more
    batches         messages to records: decode, decide, replay, encode, without I/O
    serving         what may be believed and told, without Kafka and without a clock
    ports           what it needs of the world; ``producing``, ``proposals`` and ``traced`` are that over Kafka
    row_handlers    the handlers that are installed
    garbage         when the process's garbage is collected
Whoever proposes:
    publisher       a proposal goes out, its receipt comes back
    senders         which producer sends it; ``sending`` is one that outlives what breaks it
    carried         what is proposed by the machine's carrier instead; ``carrier`` is that, ``carrier_line`` how both speak
    answers         who waits for which receipt, and who reads for all; ``receipts`` is what lies in their topic
    calling_back    the thread for those who do not wait
    replies         receipts that the sequencer brings to a carrier of its own machine itself
Topics:
    topics          their names; ``topic_settings`` how they must be set, ``access_rules`` who may do what with them
    genesis         the birth of a log
    undecided       proposals that still wait, for who is no sequencer
    losses          what is gone of them; ``durability`` what could get lost
Kafka itself:
    connection      how clients are made, and requests asked again
    reading         partitions of a topic, through outages; ``deafness`` notices a consumer that gives out nothing any more
    reports         what the client says of single records
    triage          what an error means; ``certificates`` what is wrong with a broker's
"""
