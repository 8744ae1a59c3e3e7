"""Both engines agree on a million mutated messages, and on all real mail that is at hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.engine import identity
from tests.engine.compared_mail import mutated_mail
from tests.harness.corpora import torture_messages
from tests.harness.native import native_library

pytestmark = [pytest.mark.soak, pytest.mark.timeout(6 * 3600)]

_PROCESSES = len(os.sched_getaffinity(0))
_MAX_HANDED_BACK = 0.01


def total(parts: Iterable[identity.Report]) -> identity.Report:
    """The report of all parts, which is printed."""
    native_library()
    report = identity.Report()
    for part in parts:
        report.add(part)
    print(report.describe())
    assert (report.differences, report.panics) == ([], [])
    return report


def test_a_million_mutated_messages() -> None:
    assert total(identity.compare_mutated(1_000_000, 1, _PROCESSES)).messages == 1_000_000


def test_all_corpora() -> None:
    folder = os.environ.get("NBSTREAM_CORPORA")
    if not folder:
        pytest.skip("set NBSTREAM_CORPORA to the folder of the archives")
    report = total(identity.compare_corpora(Path(folder), _PROCESSES))
    assert report.handed_back <= _MAX_HANDED_BACK * report.messages


def test_mutated_torture_messages(tmp_path: Path) -> None:
    torture = torture_messages(tmp_path)
    total([identity.compare(mutated_mail(20_000, 1, torture), 1)])
