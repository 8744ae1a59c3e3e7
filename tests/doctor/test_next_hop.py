"""The next hop: whether mail could leave."""

from __future__ import annotations

from pathlib import Path

from nbstream.doctor import next_hop
from nbstream.doctor.next_hop import examine_next_hop
from tests.doctor.sites import make_site, the
from tests.integration.daemon import free_port


async def test_a_maildir_with_room_takes_mail(tmp_path: Path) -> None:
    the(await examine_next_hop(make_site(tmp_path)), next_hop.READY)


async def test_a_server_that_is_away_takes_none(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    found = await examine_next_hop(make_site(tmp_path, f"relay: {{next_hop: 'smtp://{address}'}}\n"))

    assert address in the(found, next_hop.AWAY).what
