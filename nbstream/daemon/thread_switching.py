"""How long the event loop waits for its turn while threads of the same process work."""

from __future__ import annotations

import sys

# Large messages are parsed in threads. Whenever the loop has something to do meanwhile, it waits this long for its
# turn, some three times for each answer; with the 5 ms that Python waits a message of 20 MB delays others more.
_SWITCH_SECONDS = 0.001


def shorten_switch_interval() -> None:
    """Let the threads of this process, which serves mail, give up the interpreter sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)
