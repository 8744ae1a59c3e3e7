"""A site of the previous release is used by this one, and by the previous one again: no step loses anything."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nbstream.config import load_settings
from nbstream.errors import ConfigError
from nbstream.listeners.dovecot.spool import measure_backlog
from tests.conftest import RedisServer
from tests.integration.daemon import free_port, send, wait_until
from tests.integration.releases import CHECKOUT, PREVIOUS, Release, unpack
from tests.integration.spool_client import TAKEN, report

LESSONS = 300
SPAM_WORDS = ["free", "prize", "offer", "claim", "winner", "casino", "pills", "cheap", "click", "now"]
HAM_WORDS = ["meeting", "agenda", "report", "lunch", "budget", "review", "family", "holiday", "minutes", "draft"]


def message(number: int, label: str) -> bytes:
    words = SPAM_WORDS if label == "spam" else HAM_WORDS
    chosen = " ".join(words[(number * step) % len(words)] for step in (1, 3, 7))
    head = (
        f"From: {words[number % 3]}@{label}.example\nMessage-ID: <{number}@{label}.example>\nSubject: {chosen}\n"
    )
    return f"{head}\n{chosen} {label}word{number % 40}\n".encode()


@dataclass(frozen=True)
class Upgraded:
    """A configuration that both releases accept, and what is kept by it."""

    previous: Release
    this: Release
    state: Path
    spool_socket: Path
    hang_redis: Callable[[], None]
    free_redis: Callable[[], None]

    def leave_in_the_spool(self, release: Release, number: int) -> None:
        """Report a message while Redis hangs, and end the daemon by a crash: the message waits in the spool."""
        with release.daemon().ready() as daemon:
            self.wait_for_the_spool()
            self.hang_redis()
            assert report(self.spool_socket, message(number, "spam")) == TAKEN
            daemon.process.send_signal(signal.SIGKILL)
            daemon.wait()
        self.free_redis()
        assert measure_backlog(self.state / "spool").waiting == 1

    def learned_from_the_spool(self, release: Release) -> bool:
        """Run a daemon until nothing waits in the spool; whether nothing was set aside."""
        with release.daemon().ready() as daemon:
            self.wait_for_the_spool()
            assert daemon.stop() == 0
        return measure_backlog(self.state / "spool").failed == 0

    def wait_for_the_spool(self) -> None:
        wait_until(lambda: measure_backlog(self.state / "spool").waiting == 0)


@pytest.fixture(params=["embedded", "external"])
def site(request: pytest.FixtureRequest, own_redis: RedisServer, tmp_path: Path) -> Upgraded:
    state, spool_socket = tmp_path / "state", tmp_path / "report.sock"

    def signal_embedded(number: signal.Signals) -> None:
        os.kill(int((state / "redis.server").read_text()), number)

    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {state}\nlog: {{format: json}}\nactions: {{spam: quarantine}}\nmemory: {{hours: 24}}\n"
        "verdict: {spam: 0.95}\n"  # the default of the previous release is another
        + (f"redis: {{url: '{own_redis.url}'}}\n" if request.param == "external" else "")
        + f"listeners:\n  smtp: {{listen: '127.0.0.1:{free_port()}'}}\n"
        f"  http: {{listen: '127.0.0.1:{free_port()}'}}\n"
        f"  dovecot: {{listen: 'unix:{spool_socket}'}}\n"
    )
    return Upgraded(
        Release(unpack(PREVIOUS, tmp_path), config),
        Release(CHECKOUT, config),
        state,
        spool_socket,
        *(
            (own_redis.hang, own_redis.go_on)
            if request.param == "external"
            else (lambda: signal_embedded(signal.SIGSTOP), lambda: signal_embedded(signal.SIGKILL))
        ),
    )


def said(release: Release, *words: str | Path, code: int = 0) -> str:
    done = release.command(*words)
    assert done.returncode == code, done.stderr
    return done.stdout


def stored(release: Release, mail: Path, ids: list[str]) -> dict[str, Any]:
    """All that a person can see of a site, by the commands of a release."""
    export = release.config.with_name("export.gz")
    said(release, "export", export)
    exported = gzip.decompress(export.read_bytes()).splitlines()
    explained = said(release, "explain", "--json", *ids)
    return {
        "verdicts": said(release, "check", "--json", mail, code=1).splitlines(),
        "remembered": [json.loads(line)["remembered"] for line in explained.splitlines()],
        "history": said(release, "history", "--json").splitlines(),
        "quarantine": said(release, "quarantine", "list", "--json").splitlines(),
        "model": sorted(_without_time_left(line) for line in exported[1:-1]),  # without its date and its checksum
    }


def _without_time_left(line: bytes) -> str:
    entry = json.loads(line)
    entry.pop("milliseconds", None)  # until it is forgotten
    return json.dumps(entry, sort_keys=True)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_all_is_there_after_the_upgrade_and_after_the_way_back(site: Upgraded, tmp_path: Path) -> None:
    for label in ("spam", "ham"):
        (tmp_path / label).mkdir()
        for number in range(LESSONS // 2):
            (tmp_path / label / f"{number}.eml").write_bytes(message(number, label))
    mail = tmp_path / "mail"
    mail.mkdir()
    checked = [
        (f"{number}{label}", message(1000 + number, label)) for number in range(10) for label in ("spam", "ham")
    ]
    for name, raw in checked:
        (mail / f"{name}.eml").write_bytes(raw)

    for label in ("spam", "ham"):
        assert f"{LESSONS // 2} learned" in said(site.previous, "learn", label, tmp_path / label)
    with site.previous.daemon().ready() as daemon:
        replies = send(daemon, [("ann@example.org", raw) for _, raw in checked], with_verdict=True)
        assert report(site.spool_socket, message(2000, "spam")) == TAKEN
        site.wait_for_the_spool()
        assert daemon.stop() == 0
    ids = [re.findall(r"id=(\w+)", reply)[0] for reply in replies]
    site.leave_in_the_spool(site.previous, 2001)

    before = stored(site.previous, mail, ids)
    assert [len(before[part]) for part in ("verdicts", "remembered", "history", "quarantine")] == [20, 20, 301, 10]
    assert stored(site.this, mail, ids) == before
    assert site.learned_from_the_spool(site.this)

    site.leave_in_the_spool(site.this, 2002)
    with_this = stored(site.this, mail, ids)
    assert with_this["history"][:301] == before["history"]
    assert len(with_this["history"]) == 302
    assert stored(site.previous, mail, ids) == with_this
    assert site.learned_from_the_spool(site.previous)
    assert len(stored(site.previous, mail, ids)["history"]) == 303


def test_each_setting_of_the_previous_release_is_known_or_its_end_is_explained(tmp_path: Path) -> None:
    reference = (unpack(PREVIOUS, tmp_path) / "docs/reference/settings.md").read_text()
    keys = re.findall(r"^\| `([a-z_.]+)` \|", reference, re.MULTILINE)
    file = tmp_path / "null.yaml"

    said = {}
    for key in keys:
        sections = key.split(".")
        file.write_text("{" + ": {".join(sections) + ": null" + "}" * len(sections))
        said[key] = problems_of(file)

    gone = [key for key, problems in said.items() if any(": this key is gone: " in line for line in problems)]
    assert [key for key in keys if key not in gone and any("found null" not in line for line in said[key])] == []
    assert len(keys) > 150
    assert len(gone) > 50


def test_the_files_of_the_previous_release_are_accepted_but_for_keys_that_are_gone(tmp_path: Path) -> None:
    folder = unpack(PREVIOUS, tmp_path)
    for file in [folder / "config/nbstream.yaml", *folder.glob("deploy/*/nbstream.yaml")]:
        problems = [line for line in problems_of(file) if "must be a readable file" not in line]  # a password
        problems = [line for line in problems if "must be the key of" not in line]
        assert [line for line in problems if "this key is gone: " not in line] == []


def problems_of(file: Path) -> list[str]:
    """What `nbstream config check` says of a file."""
    try:
        load_settings(file)
    except ConfigError as error:
        return str(error).splitlines()
    return []
