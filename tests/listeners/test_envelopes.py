"""Each listener tells what it knows of the envelope of a message, and invents nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.filter import Check, CheckSeconds, Filter, FilterObserver
from nbstream.policy.envelope import BuildEnvelope, RememberedEnvelope
from tests.harness.filters import with_parts
from tests.harness.http_listener import open_http
from tests.harness.milter_listener import open_milter
from tests.harness.runtimes import make_runtime
from tests.harness.smtp_listener import Way, open_smtp_listener

FROM = "Ann <ann@header.example>"
MAIL = b"From: Ann <ann@header.example>\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\r\nwords\r\n"


class Envelopes(FilterObserver):
    """The envelopes of the checks that were reported."""

    def __init__(self) -> None:
        self._builders: list[BuildEnvelope | None] = []

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        self._builders.append(build_envelope)

    def observe(self, spam_filter: Filter) -> Filter:
        """Return the same filter with this observer."""
        return with_parts(spam_filter, observer=self)

    @property
    def only_one(self) -> RememberedEnvelope:
        """The envelope of the only check, built now: long after the check."""
        (build,) = self._builders
        assert build is not None
        return build()


@pytest.fixture
def envelopes() -> Envelopes:
    return Envelopes()


@pytest.mark.parametrize("way", [Way.SMTP, Way.LMTP])
async def test_smtp_and_lmtp_know_sender_recipients_and_action(
    client: Redis, tmp_path: Path, envelopes: Envelopes, way: Way
) -> None:
    async with open_smtp_listener(client, tmp_path / "maildir", way=way) as running:
        running.listener.apply(make_runtime(envelopes.observe(running.spam_filter)))
        assert (await running.send(MAIL, "bob@y.example", "bounces@x.example")).startswith("250")

    assert envelopes.only_one == RememberedEnvelope(
        way.listener_name, "bounces@x.example", ("bob@y.example",), 1, "café", "pass", FROM
    )


async def test_a_milter_knows_what_the_mail_server_says(client: Redis, envelopes: Envelopes) -> None:
    async with open_milter(client) as running:
        running.listener.apply(make_runtime(envelopes.observe(running.opened_filter.spam_filter)))
        server = await running.server()
        await server.deliver(MAIL, "bob@y.example", "carl@y.example", sender="<ann@x.example>")
        server.close()

    assert envelopes.only_one == RememberedEnvelope(
        "milter", "ann@x.example", ("bob@y.example", "carl@y.example"), 2, "café", "pass", FROM
    )


async def test_rspamds_protocol_names_sender_and_recipients_in_fields(
    client: Redis, tmp_path: Path, envelopes: Envelopes
) -> None:
    async with open_http(client, tmp_path) as running:
        running.listener.apply(make_runtime(envelopes.observe(running.spam_filter)))
        answer = await running.ask("/checkv2", MAIL, From="<ann@x.example>", Rcpt="<bob@y.example>")
        assert answer.status == 200

    assert envelopes.only_one == RememberedEnvelope(
        "http", "ann@x.example", ("bob@y.example",), 1, "café", "", FROM
    )


@pytest.mark.parametrize(
    ("path", "content_type", "subject"),
    [
        ("/checkv2", "message/rfc822", "café"),
        ("/v1/check", "message/rfc822", "café"),
        ("/v1/check", "text/plain", None),
    ],
)
async def test_who_names_no_addresses_has_none(
    client: Redis, tmp_path: Path, envelopes: Envelopes, path: str, content_type: str, subject: str | None
) -> None:
    async with open_http(client, tmp_path) as running:
        running.listener.apply(make_runtime(envelopes.observe(running.spam_filter)))
        assert (await running.ask(path, MAIL, Content_Type=content_type)).status == 200

    assert envelopes.only_one == RememberedEnvelope("http", subject=subject, header_from=FROM if subject else None)
