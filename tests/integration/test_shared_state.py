"""What one worker or a command changes, all workers of a daemon know: correspondents and sender lists."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command, wait_until
from tests.integration.workers import MANY, Site

ANN, BOB = "ann@example.org", "bob@partner.example"
OURS = "20261121.7f3a9c51d2@example.org"
SENT = f"Message-ID: <{OURS}>\nFrom: {ANN}\nTo: {BOB}\nSubject: offer\n\nCan you do this for us?\n".encode()
ANSWER = (
    "Authentication-Results: mx.example.org; dkim=pass header.d=partner.example\n"
    "Received: from x by mx.example.org\n"
    f"In-Reply-To: <{OURS}>\nFrom: Bob <{BOB}>\nSubject: Re: offer\n\nYes, on Monday.\n"
).encode()
KNOWN = frozenset({"known.answer", "known.sender"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Site:
    return Site(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def daemon(site: Site) -> Iterator[DaemonProcess]:
    site.write("trusted_authserv_ids: [mx.example.org]\ncorrespondents: {}\n")
    with site.running() as daemon:
        yield daemon


def post(daemon: DaemonProcess, path: str, body: bytes, **fields: str) -> dict[str, object]:
    request = urllib.request.Request(f"http://{daemon.address('http')}{path}", body, fields)
    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def run(site: Site, *words: str) -> str:
    result = command(*words, "-c", site.file)
    assert result.returncode == 0, result.stderr
    return result.stdout


def found(daemon: DaemonProcess) -> set[object]:
    """Which tokens of whom we know the answer has, at each worker."""
    checks = (post(daemon, "/v1/check", ANSWER)["clues"] for _ in range(MANY))
    return {frozenset(KNOWN & {clue["token"] for clue in clues}) for clues in checks}  # type: ignore[attr-defined]  # JSON


def test_an_answer_is_known_to_all_explained_learned_alike_and_forgotten(
    site: Site, daemon: DaemonProcess
) -> None:
    file = site.file.with_name("answer.eml")
    file.write_bytes(ANSWER)
    post(daemon, "/checkv2", SENT, User=ANN, Rcpt=BOB)
    wait_until(lambda: json.loads(run(site, "status", "--json"))["correspondents"] == 1)
    assert "known    whom users wrote to, by 1 of their messages" in run(site, "status")

    assert "1 learned as ham" in run(site, "learn", "ham", str(file))  # by a process of its own
    post(daemon, "/v1/learn?label=spam", ANSWER.replace(b"bob@", b"eve@").replace(b"7f3a", b"7f3b"))
    wait_until(lambda: found(daemon) == {KNOWN})
    explained = run(site, "explain", str(file))
    assert "whom we know: answers mail of ours" in explained
    assert "whom we know: a user wrote to the sender" in explained

    erased = run(site, "forget", "--user", ANN, "--yes")
    assert "1  messages they sent that name correspondents" in erased
    assert "nothing of the user is left" in erased
    wait_until(lambda: found(daemon) == {frozenset()})

    run(site, "unlearn", str(file))
    assert not KNOWN & set(run(site, "model", "show", "-k", "1000").split())  # it was taken back as it was learned


def test_every_worker_follows_the_sender_lists(site: Site, daemon: DaemonProcess) -> None:
    def reasons() -> set[object]:
        return {post(daemon, "/v1/check", ANSWER)["reason"] for _ in range(MANY)}

    before = reasons()
    run(site, "list", "add", "block", "partner.example")
    wait_until(lambda: reasons() == {"list=block, owner=site"})
    run(site, "list", "remove", "partner.example")
    wait_until(lambda: reasons() == before)
