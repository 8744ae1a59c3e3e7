"""The tree of errors, and how a table for it is read."""

from __future__ import annotations

import pytest

from nbstream.errors import (
    InputError,
    NbstreamError,
    RelayRefused,
    StoreForbids,
    StoreRefuses,
    StoreUnavailable,
    table_row,
)
from tests.harness.error_tables import classes_without_row


def test_a_class_without_a_row_has_that_of_its_nearest_parent() -> None:
    table = {StoreUnavailable: "store", StoreForbids: "password", NbstreamError: "any"}

    assert [table_row(table, kind) for kind in (StoreForbids, StoreRefuses, InputError)] == [
        "password",
        "store",
        "any",
    ]
    with pytest.raises(KeyError):
        table_row({StoreUnavailable: "store"}, InputError)


def test_a_row_of_the_base_class_decides_nothing_for_the_others() -> None:
    missing = classes_without_row({StoreUnavailable: "store", NbstreamError: "any"})

    assert "InputError" in missing
    assert not {"StoreUnavailable", "StoreRefuses", "NbstreamError"} & set(missing)


@pytest.mark.parametrize(("code", "temporary"), [(421, True), (452, True), (550, False)])
def test_a_refusal_of_the_next_hop_is_as_temporary_as_its_code(code: int, temporary: bool) -> None:
    refused = RelayRefused(code, "5.1.1 No such user\n5.1.1 here")

    assert refused.temporary is temporary
    assert str(refused) == f"next hop: {code} 5.1.1 No such user 5.1.1 here"
