"""Makes the reference pages of the handbook, the manual pages and the shell completions from the code.

Rules: what is written depends on the code alone, neither on the machine nor on the time, so that a test can
compare it with the committed files. Each module makes one page; ``pages`` knows them all. A setting, command or
metric without a text of its own raises ``Undocumented``.
"""
