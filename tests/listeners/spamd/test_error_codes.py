"""The code that answers each error."""

from __future__ import annotations

import pytest

from nbstream.errors import CountsFull, StoreUnavailable
from nbstream.listeners.spamd.error_codes import ERROR_CODES, error_code
from nbstream.wire.spamd import EX_TEMPFAIL
from tests.error_tables import classes_without_row


def test_every_error_has_its_code() -> None:
    assert classes_without_row(ERROR_CODES) == []


@pytest.mark.parametrize("error", [StoreUnavailable("x"), CountsFull("x"), ZeroDivisionError()])
def test_errors_and_faults_defer_the_request(error: Exception) -> None:
    assert error_code(error) == EX_TEMPFAIL
