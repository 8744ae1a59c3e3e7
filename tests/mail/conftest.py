"""The tests of this package test both engines."""

from tests.harness.comparing import compare_engines

__all__ = ["compare_engines"]
