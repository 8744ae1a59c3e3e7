"""The process of one fuzz target: ``python -m tests.fuzz.engine TARGET`` with the arguments of libFuzzer.

libFuzzer ends the process by itself. ``python -m tests.fuzz`` starts it, and says what came of it.
"""

from __future__ import annotations

import logging
import sys

import atheris

from tests.fuzz.target import load_target


def main() -> None:
    """Run the target, with every import of nbstream instrumented."""
    name, *arguments = sys.argv[1:]
    logging.disable()  # a line for each refused input would be most of the work
    with atheris.instrument_imports(include=["nbstream", "tests.fuzz.targets"]):
        target = load_target(name)
    atheris.Setup([sys.argv[0], *arguments], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
