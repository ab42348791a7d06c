"""Several logs, each with its own name, that take writes to the same keyed tables: links bring each one's to the others.

A link:
    link            brings what one log has committed to another one
    beginning       where it begins, and whether the source still says what it said
    forwarding      what of the source's outcomes goes to the target, and how it is said there
    contents_there  the same of changes to tables; ``bindings`` checks that names mean the same on both sides
    displaced       rows that the target has and remembers no longer
    proposing       many proposals ahead of their answers
A site:
    join            joins late, with what ``joining`` tells it of another one
    kept            what it still keeps of its history
    divergence      the rows that it holds back
"""
