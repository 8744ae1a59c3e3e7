"""``nbstream list``: the lists of the site and of a user, as people see and change them."""

from __future__ import annotations

import re

import pytest

from nbstream.store import sender_lists
from nbstream.system_users import current_user
from tests.cli.taught import Taught

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


def test_a_list_is_changed_and_shown(taught: Taught) -> None:
    assert taught("list", "show") == ("", "nbstream: the list of the site is empty\n")
    assert taught("list", "add", "allow", "*@Partner.example")[0] == "added: allow partner.example, for the site\n"
    assert taught("list", "add", "block", "partner.example")[0] == "changed: block partner.example, for the site\n"
    assert taught("list", "add", "block", "partner.example")[0] == "already: block partner.example, for the site\n"

    out, _ = taught("list", "show")

    assert re.fullmatch(rf"block  partner\.example  {TIME}\S*  {current_user()}\n", out), out
    assert taught("list", "remove", "partner.example")[0] == "removed: partner.example, for the site\n"


def test_the_settings_have_entries_too(taught: Taught) -> None:
    taught.config.write_text(taught.config.read_text() + "lists: {allow: ['@a.example'], block: [b@x.example]}\n")

    assert taught("list", "show")[0] == "allow  a.example  (settings)\nblock  b@x.example  (settings)\n"
    assert taught.json("list", "show")[0] == {"kind": "allow", "sender": "a.example", "time": None, "actor": None}
    assert taught("list", "show", "--user", "ann@example.org")[0] == ""


def test_what_cannot_be_done_is_said(taught: Taught, monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = taught("list", "remove", "a.example", "--user", "ann@example.org", code=66)
    assert err == "nbstream: the list of ann@example.org has no entry a.example\n"

    monkeypatch.setattr(sender_lists, "MAX_ENTRIES", 0)
    _, err = taught("list", "add", "allow", "a.example", code=65)
    assert err.startswith("nbstream: nothing was added: a list has at most 1000 entries")

    with pytest.raises(SystemExit) as caught:
        taught("list", "add", "allow", "partner")
    assert caught.value.code == 64
