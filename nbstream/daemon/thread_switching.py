"""How long the loop waits for its turn beside threads of the same process."""

from __future__ import annotations

import sys

# Large messages are taken apart in threads. Whenever the loop has something to do meanwhile it waits so long for
# its turn, some three times an answer: with Python's 5 ms a message of 20 MB delayed others half as long again.
_SWITCH_SECONDS = 0.001


def shorten_switch_interval() -> None:
    """Have threads of this process, which serves mail, give up the interpreter sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)
