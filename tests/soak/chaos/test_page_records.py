"""What the audit says of rows and their indices."""

from __future__ import annotations

import pytest

from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.recent.message_rows import MessageRow, sender_index
from tests.soak.chaos.page_records import row_deviations

ROW = MessageRow("a", 7.5, "ham", 0.25, envelope=RememberedEnvelope("smtp", "ann@x.example", (), 0, None, "pass"))
BY_SENDER = f"rows:by:{sender_index('ann@x.example')}"
NAMES = " ".join(ROW.index_names())
INDICES = {
    "recent": {"a": 7.5, "without a row": 8.0},
    "rows": {"a": 7.5},
    "rows:indices": {f"a {NAMES}": 0.0},
    "rows:by:ham": {"a": 7.5},
    BY_SENDER: {"a": 7.5},
    f"rows:by:{sender_index('@x.example')}": {"a": 7.5},
}


def test_a_row_that_is_in_its_indices_and_in_no_others_is_right() -> None:
    assert list(row_deviations(INDICES, {"a": ROW})) == []


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("rows", {}),
        ("rows", {"a": 7.25}),
        ("rows:indices", {"a ham": 0.0}),
        ("rows:indices", {f"a {NAMES}": 0.0, f"b {NAMES}": 0.0}),
        ("rows:by:ham", {"b": 7.5}),
        (BY_SENDER, {}),
        (BY_SENDER, {"a": 7.5, "b": 8.0}),
        ("rows:by:spam", {"a": 7.5}),
    ],
)
def test_an_index_that_differs_is_a_deviation(name: str, entries: dict[str, float]) -> None:
    (deviation,) = row_deviations({**INDICES, name: entries}, {"a": ROW})

    assert f" of {name} are not those of the rows" in deviation.text


def test_a_row_of_a_message_that_is_not_remembered_is_a_deviation() -> None:
    (deviation,) = row_deviations({**INDICES, "recent": {"a": 8.0}}, {"a": ROW})

    assert "not remembered so: ['a']" in deviation.text


def test_a_row_that_cannot_be_read_is_a_deviation() -> None:
    (deviation,) = row_deviations({"recent": {"a": 7.5}}, {"a": None})

    assert deviation.text == "the row of a cannot be read"
