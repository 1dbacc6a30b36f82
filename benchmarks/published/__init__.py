"""Published figures: measured by a command, kept as data, and drawn into the documents from there.

``pieces`` says what is measured and by which command, ``measure`` runs it, ``record`` is the file that keeps it,
``documents`` puts the figures into README and docs. `make publish` measures what is missing or out of date, and
`make figures` draws.
"""
