"""Sender lists: what is allowed, and what nothing can prove."""

from __future__ import annotations

from pathlib import Path

from nbstream.daemon.assembly.store import open_sender_lists
from nbstream.doctor import model
from nbstream.doctor.model import examine_lists
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import SITE, ListKind
from tests.harness.examined_sites import make_site, the
from tests.harness.redis.redis_server import RedisServer


async def test_an_allowed_sender_that_nothing_can_prove_is_named(own_redis: RedisServer, tmp_path: Path) -> None:
    site = make_site(tmp_path, f"redis: {{url: '{own_redis.url}'}}\nlists: {{allow: [a.example, 192.0.2.0/24]}}\n")
    async with open_sender_lists(site.settings) as stored:
        for number in range(5):
            await stored.add(SITE, ListKind.ALLOW, SenderPattern.parse(f"s{number}.example"), "")
        await stored.add(SITE, ListKind.BLOCK, SenderPattern.parse("blocked.example"), "")

    finding = the(await examine_lists(site), model.UNPROVABLE)

    assert finding.what.startswith(
        "The list of the site allows a.example, s0.example, s1.example and 3 more, but trusted_authserv_ids"
    )


async def test_nothing_is_said_where_senders_can_be_proved_or_none_has_to_be(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    for settings in (
        "lists: {allow: [a.example]}\ntrusted_authserv_ids: [mx.example.org]\n",
        "lists: {allow: [192.0.2.0/24], block: [b.example]}\n",
    ):
        site = make_site(tmp_path, f"redis: {{url: '{own_redis.url}'}}\n{settings}")
        assert await examine_lists(site) == []


async def test_without_redis_the_settings_are_looked_at(tmp_path: Path) -> None:
    site = make_site(tmp_path, "redis: {url: 'redis://127.0.0.1:1'}\nlists: {allow: [a.example]}\n")

    assert the(await examine_lists(site), model.UNPROVABLE)
