"""What the exit codes of the commands mean, for the reference and the manual page."""

from __future__ import annotations

EXIT_CODES = {
    0: "The command did what it was asked to do.",
    64: "The command line is wrong.",
    65: "Nothing can be learned from a message.",
    66: "An input cannot be read, is damaged, or an id is unknown. The other inputs are handled all the same.",
    69: "The daemon does not run, or the next hop refuses.",
    70: "There is a fault in nbstream. Please report the traceback.",
    74: "The output, or a file that is named for it, cannot be written, or nobody reads it.",
    75: "Try again later: Redis is away, or an address or the state folder is in use.",
    78: "The configuration, a password or a stored model cannot be used.",
    130: "The command was interrupted by Ctrl-C. A second Ctrl-C does not wait for what is under way.",
}
"""The exit codes of every command and their meaning, most of them those of sysexits.h."""

COMMAND_EXIT_CODES = {
    "serve": {0: "The daemon was stopped by SIGTERM or SIGINT."},
    "doctor": {
        0: "Nothing is wrong; notes may be printed.",
        3: "There are warnings, and no problems.",
        4: "There are problems, which may be those of the configuration.",
    },
    "check": {0: "No message is spam.", 1: "At least one message is spam."},
    "learn": {0: "All messages are learned, or were learned before."},
    "unlearn": {0: "None of the messages is learned any more, or ever was."},
    "undo": {0: "The changes are taken back, as far as they can be."},
    "import": {66: "The file is damaged.", 78: "The file is of another kind, or the model is not empty."},
    "quarantine release": {
        69: "The next hop refuses a message.",
        75: "A message stays in the quarantine for now.",
    },
    "config check": {
        0: "The configuration can be used.",
        78: "The configuration has the problems that are printed.",
    },
    "reload": {
        0: "The daemon applied the configuration.",
        69: "No daemon runs.",
        75: "The daemon did not answer.",
        78: "The configuration was refused, and nothing has changed.",
    },
    "ui": {
        0: "The link is printed.",
        69: "No daemon runs.",
        75: "Redis is away.",
        78: "The HTTP listener is off, or the configuration cannot be used.",
    },
    "evaluate": {78: "A picture needs matplotlib, which is not installed."},
    "bench": {75: "The private Redis or the daemon that is measured does not start, or does not answer in time."},
    "tune": {78: "A picture needs matplotlib, which is not installed."},
}
"""What the exit codes mean for one command where it says more than ``EXIT_CODES``."""
