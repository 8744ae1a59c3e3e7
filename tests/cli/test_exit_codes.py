"""The exit code of a command that ends with an error."""

from __future__ import annotations

import pytest

from nbstream.cli.exit_codes import ERROR_EXIT_CODES, exit_code
from nbstream.daemon.worker import FAILED_FOR_GOOD, FAILED_FOR_NOW
from nbstream.errors import (
    CannotStart,
    ConfigError,
    FeedbackTooLarge,
    InputError,
    NbstreamError,
    RelayRefused,
    StoreForbids,
    StoreRefuses,
)
from tests.harness.error_tables import classes_without_row


def test_every_error_has_its_exit_code() -> None:
    assert classes_without_row(ERROR_EXIT_CODES) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NbstreamError("x"), 75),
        (CannotStart("x"), 75),
        (ConfigError("x"), 78),
        (FeedbackTooLarge("x"), 65),
        (InputError("x"), 66),
        (RelayRefused(550, "x"), 69),
        (StoreForbids("x"), 78),
        (StoreRefuses("x"), 75),
    ],
)
def test_the_exit_code_of_an_error(error: NbstreamError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(CannotStart("x"), FAILED_FOR_NOW), (ConfigError("x"), FAILED_FOR_GOOD)],
)
def test_a_daemon_without_workers_ends_with_the_exit_code_of_the_worker(error: NbstreamError, code: int) -> None:
    assert exit_code(error) == code
