"""How long the event loop waits for its turn while threads of the same process work."""

from __future__ import annotations

import sys

# Large messages are parsed in threads. Meanwhile the event loop waits up to this long each time that it has work
# to do, about three times for each answer. Python's default is 5 ms: a message of 20 MB would delay others more.
_SWITCH_SECONDS = 0.001


def shorten_switch_interval() -> None:
    """Let the threads of this process, which serves mail, give up the interpreter sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)
