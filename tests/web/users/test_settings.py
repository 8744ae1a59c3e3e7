"""The sections ``digest`` and ``user_page`` of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.daemon.config import Settings, load_settings
from nbstream.errors import ConfigError
from tests.mail.test_addresses import SPELLINGS

DIGEST = "recipients: ['*@example.org'], sender: filter@example.org, base_url: 'https://mail.example.org'"


def read(folder: Path, digest: str, rest: str = "") -> Settings:
    file = folder / "nb.yaml"
    file.write_text(f"digest: {{{digest}}}\n{rest}")
    return load_settings(file)


def test_it_goes_to_whom_the_patterns_name(tmp_path: Path) -> None:
    section = read(tmp_path, f"{DIGEST}, exclude: ['list-*@example.org']").digest
    assert section
    assert section.is_recipient("Ann@Example.org")
    for address in ("list-all@example.org", "ann@example.net", "ann@example.org.net", "ann", "", "<>"):
        assert not section.is_recipient(address)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_odd_spelling_does_not_escape_the_exclusion(tmp_path: Path, spelling: str) -> None:
    section = read(tmp_path, f"{DIGEST}, exclude: ['ann@example.org']").digest
    assert section
    assert not section.is_recipient(spelling)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("language: fr", "en"),
        ("base_url: 'https://a.example/?x=1'", "must be an address such as"),
        ("base_url: 'https://a.example\\n.b'", "must be an address such as"),
        ("recipients: []", "recipients"),
        ("sender: 'Filter <filter@example.org>'", "must be a mail address"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, value: str, text: str) -> None:
    key = value.partition(":")[0]
    others = ", ".join(part for part in DIGEST.split(", ") if not part.startswith(key))
    with pytest.raises(ConfigError, match=text):
        read(tmp_path, f"{others}, {value}")


@pytest.mark.parametrize(
    ("digest", "rest", "warning"),
    [
        (DIGEST, "", "no action is quarantine"),
        (DIGEST, "listeners: {http: null}", "listeners.http of this daemon, which is closed"),
        (DIGEST.replace("https", "http"), "", "whoever overhears"),
    ],
)
def test_what_may_not_be_meant_is_said(tmp_path: Path, digest: str, rest: str, warning: str) -> None:
    assert [line for line in read(tmp_path, digest, rest).warnings if warning in line]
