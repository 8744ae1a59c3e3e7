"""Run a module as a program, and note at each millisecond of CPU where it is.

    python -P sampled.py FILE MODULE ARGUMENT ...

At SIGUSR2 the stacks since the last one are written to FILE, each with its seconds of CPU: as JSON, a list of
pairs, a stack being a list of ``path:function`` from the inside to the outside. Threads count like the main one,
unless they run nothing of Python. It imports nothing of nbstream: the program may be that of another checkout.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import FrameType

_SECONDS = 0.001
_MOST_FRAMES = 60


class Sampler:
    """The seconds by stack since the last report."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._used: dict[int, float] = {}

    def sample(self, _: int, frame: FrameType | None) -> None:
        """Add to the stack of each thread what it has used since the last sample."""
        frames = sys._current_frames() | {threading.get_ident(): frame}
        for thread, innermost in frames.items():
            with suppress(OSError):
                used = time.clock_gettime(time.pthread_getcpuclockid(thread))
                self._seconds[_stack(innermost)] += used - self._used.get(thread, 0.0)
                self._used[thread] = used

    def report(self, *_: object) -> None:
        """Write what was noted, and begin anew."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps([item for item in list(self._seconds.items()) if item[1]]))
        self._seconds.clear()
        draft.rename(self._file)


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    stack: list[str] = []
    while frame and len(stack) < _MOST_FRAMES:
        stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(stack)


def main() -> None:
    """Run the module under the sampler."""
    file, module, *arguments = sys.argv[1:]
    sampler = Sampler(Path(file))
    signal.signal(signal.SIGUSR2, sampler.report)
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
