"""Names get the same numbers from Python and from the native library."""

from __future__ import annotations

import random

from nbstream.engine.name_numbers import make_name_numbers
from tests.harness.native import native_library


def test_both_engines_number_names_alike() -> None:
    chosen = random.Random(1)
    python, native = make_name_numbers(None), make_name_numbers(native_library())
    for _ in range(200):
        names = [b"%x" % chosen.randrange(9000) for _ in range(chosen.randrange(60))]
        joined = b"\n".join(names)

        assert native.number(joined, len(names)).tolist() == python.number(joined, len(names)).tolist()
        assert len(native) == len(python)
    assert native.joined() == python.joined()
    assert native.joined(len(python) - 3) == python.joined(len(python) - 3)
    assert native.joined(len(python)) == python.joined(len(python)) == b""
