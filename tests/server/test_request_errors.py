"""Which errors may end a request, and which are a fault in nbstream."""

from __future__ import annotations

from nbstream.errors import ConfigError, StoreForbids
from nbstream.server.message_service import REQUEST_ERRORS, UNEXPECTED_ERRORS, is_request_error
from tests.harness.error_tables import classes_without_row


def test_every_error_is_expected_or_unexpected() -> None:
    assert classes_without_row(dict.fromkeys(REQUEST_ERRORS + UNEXPECTED_ERRORS)) == []
    assert not set(REQUEST_ERRORS) & set(UNEXPECTED_ERRORS)


def test_a_class_is_as_expected_as_its_parent() -> None:
    assert is_request_error(StoreForbids("x"))
    assert not is_request_error(ConfigError("x"))
    assert not is_request_error(ZeroDivisionError())
