"""The web page of a log: what was decided and why, the tables, who writes, how it all is. It only reads.

``app`` puts the pages together, ``serving`` runs them; a module a page beside them. What is drawn is worked out in
``drawing`` and comes as SVG in the page itself; ``pulse`` counts what happens while somebody may look.
"""
