"""rspamd's API with clients that were written for rspamd."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from redis.asyncio import Redis

from nbstream.bayes.clues import Clue
from nbstream.filter import Check
from nbstream.listeners.rspamd import codec as rspamd
from nbstream.mail.message import Message
from nbstream.policy.header import HeaderPolicy
from nbstream.policy.settings import HeadersSettings
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from nbstream.server.limits import BytesInFlight
from tests.harness.delivered import DELIVERED, assert_learned_as_it_was_checked
from tests.harness.http_listener import LUNCH, PRIZE, RunningHttpListener, open_http
from tests.harness.waiting import DEADLINE_SECONDS


@pytest.fixture
async def http(client: Redis, tmp_path: Path) -> AsyncIterator[RunningHttpListener]:
    async with open_http(client, tmp_path) as running:
        yield running


@pytest.fixture
def message_files(tmp_path: Path) -> dict[str, str]:
    """Two files with a message in each."""
    for name, content in (("prize", PRIZE), ("lunch", LUNCH)):
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in ("prize", "lunch")}


async def run(*words: str, data: bytes | None = None) -> tuple[int, str]:
    """Run a program in a thread, and return its exit code and output."""

    def run_program() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, input=data or b"", capture_output=True, timeout=DEADLINE_SECONDS, check=False)

    result = await asyncio.to_thread(run_program)
    return result.returncode, result.stdout.decode()


def checked(verdict: Verdict, probability: float, thresholds: Thresholds) -> Check:
    state = ModelState({"ham": 1, "spam": 1})
    return Check(
        id="a" * 24,
        verdict=verdict,
        probability=probability,
        score=1.0,
        reason="why",
        state=state,
        clues=(Clue(b"b:x", 1.0),),
        thresholds=thresholds,
    )


DEFAULT_HEADERS = HeaderPolicy("default")


def answer(
    check: Check, headers: HeaderPolicy = DEFAULT_HEADERS, raw: bytes = b"Subject: x\r\n\r\n"
) -> dict[str, Any]:
    return rspamd.check_to_json(check, headers.edits(check), Message(raw), 0.1, acts=not headers.observes)


@pytest.mark.parametrize(
    ("verdict", "action", "symbol"),
    [
        (Verdict.HAM, "no action", "NBSTREAM_HAM"),
        (Verdict.UNSURE, "no action", "NBSTREAM_UNSURE"),
        (Verdict.SPAM, "add header", "NBSTREAM_SPAM"),
        (Verdict.REJECT, "reject", "NBSTREAM_SPAM"),
    ],
)
def test_each_verdict_is_an_action_and_a_symbol(verdict: Verdict, action: str, symbol: str) -> None:
    body = answer(checked(verdict, 0.75, Thresholds(reject=0.99)))

    assert (body["action"], list(body["symbols"])) == (action, [symbol])
    assert body["score"] == pytest.approx(1.0986, abs=1e-4)
    assert body["required_score"] == pytest.approx(4.5951, abs=1e-4)
    assert body["thresholds"]["reject"] == pytest.approx(4.5951, abs=1e-4)


def test_own_fields_are_added_on_one_line_and_forged_ones_removed() -> None:
    body = answer(checked(Verdict.SPAM, 0.99, Thresholds()))

    added = body["milter"]["add_headers"]
    assert list(added) == ["X-Spam-Flag", "X-Spam-Status", "X-Spam-Level", "X-Nbstream", "X-Nbstream-Clues"]
    assert not any("\n" in field["value"] or "\r" in field["value"] for field in added.values())
    assert set(added) <= set(body["milter"]["remove_headers"])
    assert "reject" not in body["thresholds"]


def test_a_tagged_subject_is_one_that_the_client_rewrites() -> None:
    headers = HeaderPolicy("default", HeadersSettings(subject_tag="[SPAM]"))
    spam = checked(Verdict.SPAM, 0.99, Thresholds())

    for raw, subject in (
        (b"Subject: =?utf-8?q?caf=C3=A9?=\r\n\r\n", "[SPAM] café"),
        (b"From: a@b\r\n\r\n", "[SPAM]"),
    ):
        body = answer(spam, headers, raw)
        assert (body["action"], body["subject"]) == ("rewrite subject", subject)
    for verdict in (Verdict.REJECT, Verdict.HAM):
        assert "subject" not in answer(checked(verdict, 0.99, Thresholds()), headers)


async def test_a_message_that_is_learned_twice_is_208(http: RunningHttpListener) -> None:
    first, second = [await http.ask("/learnspam", PRIZE) for _ in range(2)]
    other = await http.ask("/learnclass", PRIZE, Class="ham")

    assert (first.status, first.json) == (200, {"success": True})
    assert second.status == 208
    assert "already learned as spam" in second.json["error"]
    assert (other.status, (await http.ask("/v1/model")).json["learned"]) == (200, {"ham": 1, "spam": 0})
    assert (await http.ask("/learnclass", PRIZE, Class="junk")).status == 400


async def test_a_kind_is_learned_where_the_model_has_it(http: RunningHttpListener) -> None:
    policy = http.spam_filter.policy._replace(kinds=("ham", "newsletter"))
    http.listener.apply(replace(http.runtime, spam_filter=http.spam_filter.with_policy(policy)))

    first, second = [await http.ask("/learnclass", PRIZE, Class="newsletter") for _ in range(2)]

    assert (first.status, second.status) == (200, 208)
    assert "already learned as newsletter" in second.json["error"]


async def test_the_paths_that_clients_read(http: RunningHttpListener) -> None:
    await http.ask("/checkv2", PRIZE)
    await http.memory.wait_until_written()

    assert (await http.ask("/ping")).body == b"pong\r\n"
    assert (await http.ask("/healthy")).json == (await http.ask("/ready")).json == {"success": True}
    stat = (await http.ask("/stat")).json
    assert (stat["scanned"], stat["ham_count"], stat["actions"]["no action"]) == (1, 1, 1)
    assert [statfile["symbol"] for statfile in stat["statfiles"]] == ["BAYES_HAM", "BAYES_SPAM"]
    history = (await http.ask("/history")).json
    assert [(row["action"], row["required_score"] > 2) for row in history["rows"]] == [("no action", True)]
    assert [len(group["rules"]) for group in (await http.ask("/symbols")).json] == [3]
    missing = await http.ask("/fuzzyadd", PRIZE)
    assert (missing.status, missing.json) == (404, {"error": "Not Found"})


async def test_a_delivered_message_is_learned_as_it_was_checked(http: RunningHttpListener, client: Redis) -> None:
    await http.ask("/learnspam", DELIVERED)
    await assert_learned_as_it_was_checked(client)


async def test_rspamc_scans_and_teaches(
    http: RunningHttpListener, message_files: dict[str, str], program: Callable[[str], str]
) -> None:
    rspamc = [program("rspamc"), "-h", http.address]

    code, first = await run(*rspamc, message_files["prize"])
    assert (code, "Action: no action" in first, "Score: 0.00 / 4.60" in first) == (0, True, True)
    assert "NBSTREAM_UNSURE" in first
    assert "Message-ID: p@x" in first
    assert "success = true" in (await run(*rspamc, "learn_spam", message_files["prize"]))[1]
    code, again = await run(*rspamc, "learn_spam", message_files["prize"])
    assert (code, "already learned as spam" in again) == (0, True)
    assert (await run(*rspamc, "-u", "bob", "learn_ham", message_files["lunch"]))[0] == 0
    code, output = await run(*rspamc, "stat")
    assert (code, "Messages scanned: 1\n" in output, "Messages learned: 2\n" in output) == (0, True, True)
    code, output = await run(*rspamc, "-j", data=PRIZE)
    assert (code, json.loads(output)["symbols"].keys()) == (0, {"NBSTREAM_UNSURE"})
    code, mime = await run(*rspamc, "--mime", message_files["lunch"])
    assert code == 0
    assert "\nX-Spam-Action: no action" in mime
    assert "\nX-Spam-Symbols: NBSTREAM_HAM" in mime
    assert mime.replace("\r", "").partition("\n\n")[2] == LUNCH.decode().partition("\n\n")[2]
    code, compressed = await run(*rspamc, "-z", message_files["prize"])
    assert (code, "NBSTREAM_SPAM" in compressed or "NBSTREAM_UNSURE" in compressed) == (0, True)
    code, uptime = await run(*rspamc, "uptime")
    assert (code, "Uptime: " in uptime) == (0, True), uptime
    code, counters = await run(*rspamc, "counters")
    assert (code, "NBSTREAM_UNSURE" in counters) == (0, True), counters
    assert (await http.ask("/v1/model")).json["learned"] == {"ham": 1, "spam": 1}


ZEROS = zstandard.compress(b"Subject: zeros\n\n" + bytes(40 << 20))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/checkv2", zstandard.compress(PRIZE), 200),
        ("/checkv2", zstandard.compress(PRIZE)[:-3], 400),
        ("/checkv2", b"nonsense", 400),
        ("/checkv2", zstandard.compress(b" "), 400),
        ("/checkv2", ZEROS, 413),
        ("/v1/check", zstandard.compress(PRIZE), 415),
    ],
    ids=["whole", "cut", "no zstd", "nothing", "a bomb", "our own API"],
)
async def test_a_compressed_message_is_decompressed_within_the_limits(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes, status: int
) -> None:
    monkeypatch.setattr("nbstream.server.limits.MAX_BYTES_IN_FLIGHT", 1 << 20)

    def limit(values: dict[str, Any]) -> None:
        values.setdefault("limits", {}).update(max_message_bytes=1 << 20)

    async with open_http(client, tmp_path, change=limit) as http:
        for _ in range(3):  # what was in flight is given back
            assert (await http.ask(path, body, Compression="zstd")).status == status
        assert (await http.ask("/checkv2", PRIZE)).status == 200


async def test_others_have_their_turn_while_a_message_is_decompressed(
    http: RunningHttpListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = PRIZE + b"words of a long text\n" * 500_000
    turns = [0]
    reserve = BytesInFlight.reserve

    def counted(bytes_in_flight: BytesInFlight, size: int, held: int = 0) -> bool:
        if not turns[-1]:
            asyncio.get_running_loop().call_soon(turns.append, 0)
        turns[-1] += size
        return reserve(bytes_in_flight, size, held)

    monkeypatch.setattr(BytesInFlight, "reserve", counted)
    answer = await http.ask("/checkv2", zstandard.compress(message), Compression="zstd")

    assert answer.status == 200
    assert sum(turns) > len(message)
    assert max(turns) < len(message) // 8


async def test_rspamc_sends_a_password(
    client: Redis, tmp_path: Path, message_files: dict[str, str], program: Callable[[str], str]
) -> None:
    for name in ("read", "write"):
        (tmp_path / name).write_text(name)

    def change(values: dict[str, Any]) -> None:
        files = {"password_file": str(tmp_path / "read"), "write_password_file": str(tmp_path / "write")}
        values["listeners"]["http"].update(files, allow_from=[])

    async with open_http(client, tmp_path, change=change) as http:
        rspamc = [program("rspamc"), "-h", http.address]
        for password, scans, teaches in (([], 1, 1), (["-P", "read"], 0, 1), (["-P", "write"], 0, 0)):
            assert (await run(*rspamc, *password, "stat"))[0] == scans
            assert (await run(*rspamc, *password, message_files["prize"]))[0] == scans
            assert (await run(*rspamc, *password, "learn_spam", message_files["prize"]))[0] == teaches
