"""Makes the reference pages of the handbook, the manual pages and the shell completions from the code.

Rules: the text depends on the code alone, neither on the machine nor on the time, and a test compares it with the
committed files. Each module makes one page; ``pages`` lists them all. A setting, command or metric without a text
of its own raises ``Undocumented``.
"""
