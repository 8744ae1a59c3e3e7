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
        "The site's list allows a.example, s0.example, s1.example and 3 more, but trusted_authserv_ids"
    )
