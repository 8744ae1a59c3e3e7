"""What a fuzz target is: a check of any bytes, and the inputs that it begins with.

Rules: the modules of ``tests.fuzz.targets`` are the targets, each with its ``TARGET``. A check raises nothing
for any bytes as long as the code keeps its rules, and it does the same for the same bytes. Seeds are written by
hand or generated; none of them is real mail. An input that was a finding stays in ``findings``: ``make test`` runs
it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.fuzz import targets

_Option = TypeVar("_Option")


@dataclass(frozen=True)
class FuzzTarget:
    """One target.

    ``words`` are put into inputs, because chance would not find them. An input has at most ``max_bytes``.
    ``mutations`` is the number of inputs that ``make test`` makes from the seeds.
    """

    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    findings: Sequence[bytes] = ()
    max_bytes: int = 4096
    mutations: int = 300


class Choices:
    """Reads choices from the beginning of an input; what is left is ``rest``. An empty input chooses zeros."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def number(self, limit: int) -> int:
        """Return a number below ``limit``, which is at most 256."""
        byte, self.rest = self.rest[:1], self.rest[1:]
        return (byte[0] if byte else 0) % limit

    def option(self, options: Sequence[_Option]) -> _Option:
        """Return one of the options."""
        return options[self.number(len(options))]


def target_names() -> list[str]:
    """Return the names of all targets, without importing them."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def load_target(name: str) -> FuzzTarget:
    """Import the module of a target; nbstream is imported by nothing else here, so that it can be instrumented."""
    target = importlib.import_module(f"{targets.__name__}.{name}").TARGET
    assert isinstance(target, FuzzTarget)
    return target
