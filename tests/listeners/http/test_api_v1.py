"""nbstream's own API with a real model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.delivered import DELIVERED, assert_learned_as_it_was_checked
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.http_listener import LUNCH, PRIZE, RunningHttpListener, open_http
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

PROBLEM = "application/problem+json"


@pytest.fixture
async def http(client: Redis, tmp_path: Path) -> AsyncIterator[RunningHttpListener]:
    async with open_http(client, tmp_path) as running:
        yield running


async def test_a_delivered_message_is_learned_as_it_was_checked(http: RunningHttpListener, client: Redis) -> None:
    await http.ask("/v1/learn?label=spam", DELIVERED)
    await assert_learned_as_it_was_checked(client)


async def test_a_check_returns_the_result_of_the_filter(http: RunningHttpListener) -> None:
    expected = await http.spam_filter.check(Message(normalize_line_ends(PRIZE)))

    answer = await http.ask("/v1/check", PRIZE)

    assert answer.status == 200
    assert answer.json["id"] == expected.id
    assert answer.json["verdict"] == "unsure"
    assert answer.json["probability"] == expected.probability
    assert answer.json["reason"] == "learning 0/2"
    assert answer.json["model"] == "default"
    assert http.metric("nbstream_messages_total", listener="http", verdict="unsure") == 1


async def test_a_lesson_moves_the_next_check_and_is_taken_back_exactly(http: RunningHttpListener) -> None:
    first = (await http.ask("/v1/check", PRIZE)).json

    spam = (await http.ask("/v1/learn?label=spam", PRIZE, User="bob")).json
    again = (await http.ask("/v1/learn?label=spam", PRIZE)).json
    ham = (await http.ask("/v1/learn?label=ham", LUNCH)).json
    learned = (await http.ask("/v1/check", PRIZE)).json
    unlearned = [(await http.ask("/v1/unlearn", message)).json for message in (PRIZE, LUNCH, LUNCH)]
    last = (await http.ask("/v1/check", PRIZE)).json

    assert [lesson["outcome"] for lesson in (spam, again, ham)] == ["learned", "already", "learned"]
    assert spam["told"].startswith("learned as spam: P 0.50 -> ")
    assert learned["probability"] > first["probability"]
    assert [lesson["outcome"] for lesson in unlearned] == ["unlearned", "unlearned", "unknown"]
    assert [lesson["label"] for lesson in unlearned] == ["spam", "ham", None]
    assert (last["probability"], last["learned"]) == (first["probability"], first["learned"])
    assert http.metric("nbstream_feedback_total", source="http", label="spam", outcome="learned") == 1


async def test_a_message_is_explained_by_its_id(http: RunningHttpListener) -> None:
    checked = (await http.ask("/v1/check", PRIZE)).json
    await http.memory.wait_until_written()
    message_id = checked["id"]

    remembered = (await http.ask(f"/v1/messages/{message_id}")).json
    await http.ask("/v1/learn?label=spam", PRIZE)
    learned = (await http.ask(f"/v1/messages/{message_id}")).json

    assert remembered["remembered"] == {
        "verdict": "unsure",
        "probability": checked["probability"],
        "policy": "default",
    }
    assert remembered["learned"] is None
    assert remembered["then"]["reason"] == checked["reason"]
    assert learned["learned"]["label"] == "spam"
    assert learned["then"] == remembered["then"]
    assert learned["now"]["learned"] == {"ham": 0, "spam": 1}


async def test_a_text_is_no_mail(http: RunningHttpListener) -> None:
    text = b"From: Ann <ann@example.org>\nDate: tonight?"

    as_text = (await http.ask("/v1/check", text, Content_Type="text/plain; charset=utf-8")).json
    as_mail = (await http.ask("/v1/check", text, Content_Type="message/rfc822")).json

    assert as_text["id"] == Message.from_text(text.decode()).key
    assert as_mail["id"] != as_text["id"]


@pytest.mark.parametrize(
    ("path", "body", "fields", "status"),
    [
        ("/v1/learn", PRIZE, {}, 400),
        ("/v1/learn?label=junk", PRIZE, {}, 400),
        ("/v1/learn?label=spam&label=ham", PRIZE, {}, 400),
        ("/v1/check", b"", {}, 400),
        ("/v1/check", b" \r\n", {}, 400),
        ("/v1/check", None, {}, 405),
        ("/v1/nothing", None, {}, 404),
        ("/v1/check", PRIZE, {"Origin": "https://example.org"}, 403),
        ("/v1/learn?label=spam", PRIZE, {"Origin": "null"}, 403),
        ("/v1/model", None, {"Origin": "http://127.0.0.1"}, 403),
        ("/v1/check", PRIZE, {"Content-Encoding": "gzip"}, 415),
        ("/v1/check", PRIZE, {"Compression": "zstd"}, 415),
    ],
)
async def test_a_refusal_is_a_problem(
    http: RunningHttpListener, path: str, body: bytes | None, fields: dict[str, str], status: int
) -> None:
    answer = await http.ask(path, body, **fields)

    assert answer.status == status
    assert answer.headers["Content-Type"].partition(";")[0] == PROBLEM
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Server"] == "nbstream"
    assert (answer.json["type"], answer.json["status"]) == ("about:blank", status)
    assert (await http.ask("/v1/model")).json["learned"] == {"ham": 0, "spam": 0}


async def test_a_message_over_the_limit_is_refused_with_or_without_a_length(client: Redis, tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values.setdefault("limits", {})["max_message_bytes"] = 1000

    async with open_http(client, tmp_path, change=change) as http:

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(101):
                yield b"x" * 10

        assert (await http.ask("/v1/check", b"x" * 1000)).status == 200
        assert (await http.ask("/v1/check", b"x" * 1001)).status == 413
        assert (await http.ask("/v1/check", pieces())).status == 413  # type: ignore[arg-type]  # chunked


async def test_teaching_needs_feedback_allow_from_or_the_password_for_it(
    client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("read", "write"):
        (tmp_path / name).write_text(name)

    def change(values: dict[str, Any]) -> None:
        files = {"password_file": str(tmp_path / "read"), "write_password_file": str(tmp_path / "write")}
        values["listeners"]["http"].update(files)
        values["feedback"] = {"allow_from": ["192.0.2.0/24"]}

    async with open_http(client, tmp_path, change=change) as http:
        assert (await http.ask("/v1/check", PRIZE)).status == 200
        stranger = {"X-Forwarded-For": "198.51.100.1"}
        assert (await http.ask("/v1/check", PRIZE, **stranger)).status == 401
        assert (await http.ask("/v1/check", PRIZE, Password="read", **stranger)).status == 200
        for fields, status in (({}, 401), ({"Password": "read"}, 401), ({"Password": "write"}, 200)):
            answer = await http.ask("/v1/learn?label=spam", PRIZE, **fields)
            assert answer.status == status
        assert http.metric("nbstream_feedback_total", source="http", label="none", outcome="refused") == 2
    refused = [vars(record)["fields"] for record in caplog.records if record.levelname == "WARNING"]
    assert [(fields["path"], fields["password"]) for fields in refused] == [
        ("/v1/check", "none"),
        ("/v1/learn", "none"),
        ("/v1/learn", "wrong"),
    ]


async def test_without_counts_or_redis_the_answer_is_503(own_redis: RedisServer, tmp_path: Path) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    try:
        async with open_http(client, tmp_path / "a", follow=False) as http:
            assert (await http.ask("/v1/check", PRIZE)).status == 503
            assert (await http.ask("/v1/model")).status == 503
            assert http.metric("nbstream_messages_total", listener="http", verdict="none") == 1
        async with open_http(client, tmp_path / "b") as http:
            own_redis.stop()
            refused = await http.ask("/v1/learn?label=spam", PRIZE)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
            assert str(own_redis.socket) not in refused.body.decode()
            assert (await http.ask("/v1/messages/" + "a" * 24)).status == 503
            assert (await http.ask("/v1/check", PRIZE)).status == 200
            own_redis.start()
            assert (await http.ask("/v1/learn?label=spam", PRIZE)).status == 200
    finally:
        await client.aclose()


class Broken:
    """A filter with a fault."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def score(self, message: Message) -> None:
        raise self.error


async def test_a_user_who_says_it_again_reinforces_and_may_take_it_back(http: RunningHttpListener) -> None:
    await teach_dispute(http.spam_filter)
    before = (await http.ask("/v1/model")).json["learned"]

    reinforced, again = [(await http.ask("/v1/learn?label=ham", DISPUTED.raw, User="bob")) for _ in range(2)]

    assert (reinforced.status, reinforced.json["outcome"], reinforced.json["label"]) == (200, "reinforced", "ham")
    assert reinforced.json["told"].startswith("reinforced ham: P 0.")
    assert reinforced.json["after"]["probability"] < reinforced.json["before"]["probability"]
    assert (again.status, again.json["outcome"]) == (200, "already")
    assert (await http.ask("/v1/model")).json["learned"] == before
    assert (await http.ask("/v1/unlearn", DISPUTED.raw)).json["outcome"] == "unlearned"


# Kinds


def with_kinds(values: dict[str, Any]) -> None:
    values["model"]["classes"] = ["ham", "newsletter", "notification", "spam"]


async def test_a_kind_is_taught_and_a_check_says_which_one_a_message_is(client: Redis, tmp_path: Path) -> None:
    async with open_http(client, tmp_path, change=with_kinds) as http:
        early = (await http.ask("/v1/check", LUNCH)).json["kind"]
        for number, (label, raw) in enumerate(samples(120)):
            name = label if label == "spam" else ("ham", "newsletter")[number % 2]
            answer = await http.ask(f"/v1/learn?label={name}", raw)
            assert (answer.status, answer.json["label"]) == (200, name)
        ham = next(raw for label, raw in samples(20, seed=11) if label == "ham")
        spam = next(raw for label, raw in samples(20, seed=11) if label == "spam")
        check, other = (await http.ask("/v1/check", ham)).json, (await http.ask("/v1/check", spam)).json
        await http.memory.wait_until_written()
        record = (await http.ask(f"/v1/messages/{check['id']}")).json

    assert early == {"name": None, "kinds": [], "missing": {"ham": 20, "newsletter": 20, "notification": 20}}
    kind = check["kind"]
    assert {each["name"] for each in kind["kinds"]} == {"ham", "newsletter"}
    assert kind["name"] == kind["kinds"][0]["name"]
    assert sum(each["probability"] for each in kind["kinds"]) == pytest.approx(1)
    assert all(each["clues"] for each in kind["kinds"])
    assert kind["missing"] == {"notification": 20}
    assert record["kind"] == kind
    assert (other["verdict"], "kind" in other) == ("spam", False)
