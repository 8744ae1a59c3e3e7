"""``nbstream.web.users.digests`` from the quarantine to a real mail server: who is told of what, and when."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import InputError, StoreUnavailable
from nbstream.store.state_file import StateFile
from nbstream.web.users.digest_state import DigestMarker, DigestState
from nbstream.web.users.digests import MAX_LISTED, DigestOutcome, last_due
from nbstream.web.users.links import LinkPurpose
from tests.harness.digest_site import ANN, BOB, DigestSite, body_of, open_digests
from tests.harness.redis.redis_server import RedisServer

SENT, REFUSED, DEFERRED = DigestOutcome.SENT, DigestOutcome.REFUSED, DigestOutcome.DEFERRED
DAY = 86_400
DUE = last_due(1_795_900_000.0)
"""A time at which digests are due; the one before is a day earlier."""
BEFORE = DUE - 3600


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[DigestSite]:
    """A site whose digests were sent until a day ago."""
    async with open_digests(client, tmp_path) as opened:
        assert await opened.digests.send_due(DUE - DAY)
        yield opened


# Who gets a digest, and of what.


async def test_each_user_is_told_of_what_came_for_him(site: DigestSite) -> None:
    await site.hold(BEFORE, ANN, subject="To Ann")
    await site.hold(BEFORE - 1, BOB, "Ann@Example.org", subject="To both")
    await site.hold(BEFORE, "eve@elsewhere.example", subject="To a stranger")

    assert await site.digests.send_due(DUE)

    assert site.subjects == {ANN: ["To Ann", "To both"], BOB: ["To both"]}
    assert site.outcomes == {SENT: 2}
    for recipient, mail in site.mails:
        other = BOB if recipient == ANN else ANN
        assert other.encode() not in mail.as_bytes()


async def test_mail_goes_to_whom_it_belongs_now(client: Redis, tmp_path: Path) -> None:
    """Aliases are read anew by a reload, while the process goes on."""
    aliases = {"sales@example.org": ANN}

    def user_of(address: str) -> str:
        return aliases.get(address, address)

    async with open_digests(client, tmp_path, user_of=user_of) as site:
        assert await site.digests.send_due(DUE - 2 * DAY)
        await site.hold(BEFORE - DAY, "sales@example.org", subject="First")
        assert await site.digests.send_due(DUE - DAY)
        aliases["sales@example.org"] = BOB
        await site.hold(BEFORE, ANN, subject="Second")
        assert await site.digests.send_due(DUE)
        assert await site.digests.preview(DUE + DAY, ANN) is None

    assert site.subjects == {ANN: ["First", "Second"], BOB: ["First"]}
    assert "older" not in body_of(site.mails[1][1], "plain")


async def test_who_is_excluded_or_has_switched_it_off_gets_none(client: Redis, tmp_path: Path) -> None:
    async with open_digests(client, tmp_path, exclude=("list@*",)) as site:
        await site.hold(BEFORE, ANN, BOB, "list@example.org")
        await site.preferences.set_digest(BOB, wanted=False)
        assert await site.digests.send_now(DUE) == {SENT: 1}
        await site.preferences.set_digest(BOB, wanted=True)
        assert await site.digests.send_now(DUE) == {SENT: 1}
        assert list(site.subjects) == [ANN, BOB]


async def test_the_links_are_those_of_the_message_and_the_user(site: DigestSite) -> None:
    message_id = await site.hold(BEFORE, ANN, BOB)
    await site.digests.send_due(DUE)
    signer = await site.link_keys.signer()
    for recipient, mail in site.mails:
        links = re.findall(r"/my/link/release\?link=(\S+)", body_of(mail, "plain"))
        (link,) = [signer.read(token, LinkPurpose.RELEASE, DUE) for token in links]
        assert link
        assert (link.address, link.message_id) == (recipient, message_id)


async def test_the_least_certain_come_first_and_no_more_than_a_hundred(site: DigestSite) -> None:
    for i in range(MAX_LISTED + 3):
        await site.hold(BEFORE + i, subject=f"No. {i}", probability=0.999 - i / 1000)
    await site.digests.send_due(DUE)
    assert site.subjects[ANN] == [f"No. {i}" for i in reversed(range(3, MAX_LISTED + 3))]
    ((_, mail),) = site.mails
    assert mail["Subject"] == "103 messages to you in quarantine"
    assert "3 more are not listed here." in body_of(mail, "plain")


# When: once for each due time, and only of what is new.


async def test_a_digest_is_sent_once_for_each_time_it_is_due(site: DigestSite) -> None:
    await site.hold(BEFORE, subject="Old")
    for now in (DUE - 1, DUE, DUE + 60, DUE + DAY - 1):
        assert await site.digests.send_due(now)
    assert site.subjects == {ANN: ["Old"]}
    await site.hold(DUE + 120, subject="New")
    assert await site.digests.send_due(DUE + DAY)
    assert site.subjects == {ANN: ["Old", "New"]}
    assert "1 older message waits still." in body_of(site.mails[-1][1], "plain")


async def test_what_was_missed_is_sent_as_soon_as_a_daemon_runs(site: DigestSite) -> None:
    await site.hold(BEFORE)
    assert await site.digests.send_due(DUE + 3 * DAY + 7000)
    assert site.subjects == {ANN: ["Cheap"]}


async def test_what_may_be_on_its_way_to_the_disk_is_in_the_next_digest(site: DigestSite) -> None:
    await site.hold(DUE - 120, subject="First")
    await site.hold(DUE - 30, subject="Second")
    await site.digests.send_due(DUE)
    await site.hold(DUE - 59, subject="Came late to the disk")
    await site.digests.send_due(DUE + DAY)
    assert site.subjects == {ANN: ["First", "Second", "Came late to the disk"]}


async def test_a_message_that_came_again_is_new(site: DigestSite) -> None:
    raw = "Again"
    await site.hold(BEFORE, subject=raw)
    await site.digests.send_due(DUE)
    (file,) = (site.folder / "new").iterdir()
    again = f"{int(DUE + 120)}.{file.name.partition('.')[2].replace('Q', 'Q9')}"
    await asyncio.to_thread(os.link, file, file.with_name(again))
    await site.digests.send_due(DUE + DAY)
    assert site.subjects == {ANN: ["Again", "Again"]}


async def test_a_preview_sends_and_notes_nothing(site: DigestSite) -> None:
    await site.hold(BEFORE)
    preview = await site.digests.preview(DUE, ANN)
    assert preview
    signer = await site.link_keys.signer()
    tokens = re.findall(rb"link=3D([\w-]+)|link=([\w-]+)", preview)
    assert tokens
    assert await site.digests.preview(DUE, BOB) is None
    for purpose in LinkPurpose:
        assert not [t for pair in tokens for t in pair if signer.read(t.decode(), purpose, DUE)]
    await site.digests.send_due(DUE)
    assert site.subjects == {ANN: ["Cheap"]}
    assert await site.digests.preview(DUE, ANN) is None


# What fails, and what is done after it.


async def test_what_the_next_hop_defers_is_tried_again_and_the_others_are_sent(site: DigestSite) -> None:
    await site.hold(BEFORE, ANN, BOB)
    site.server.reply_to[ANN] = "452 4.2.2 full"
    assert not await site.digests.send_due(DUE)
    assert not await site.digests.send_due(DUE + 60)
    del site.server.reply_to[ANN]
    assert await site.digests.send_due(DUE + 120)
    assert [recipient for recipient, _ in site.mails] == [BOB, ANN]
    assert site.outcomes == {DEFERRED: 2, SENT: 2}


async def test_what_the_next_hop_refuses_for_good_waits_for_the_next_digest(site: DigestSite) -> None:
    await site.hold(BEFORE)
    site.server.data_reply = "554 no"
    assert await site.digests.send_due(DUE)
    assert await site.digests.send_due(DUE + 60)
    assert site.outcomes == {REFUSED: 1}
    site.server.data_reply = "250 ok"
    assert await site.digests.send_due(DUE + DAY)
    assert site.subjects == {ANN: ["Cheap"]}


async def test_an_address_that_only_looks_like_that_of_a_user_gets_none_of_his_links(site: DigestSite) -> None:
    """Beyond ASCII there is another K, whose lower case is a k; a mail server may take it for somebody else."""
    message_id = await site.hold(BEFORE, "\N{KELVIN SIGN}urt@example.org")
    assert message_id
    assert await site.digests.preview(DUE, "kurt@example.org") is None


async def test_who_is_killed_between_two_users_sends_nobody_two_and_costs_nobody_his(site: DigestSite) -> None:
    """The process ends after the first user; another one goes on at the same due time."""
    await site.hold(BEFORE, ANN, BOB)
    set_marker = DigestState.set_marker

    class Killed(BaseException):
        """The end of the process."""

    def note_and_end(state: DigestState, address: str, marker: DigestMarker) -> None:
        set_marker(state, address, marker)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DigestState, "set_marker", note_and_end)
        with pytest.raises(Killed):
            await site.digests.send_due(DUE)
    assert [recipient for recipient, _ in site.mails] == [ANN]
    assert await site.digests.send_due(DUE + 600)
    assert site.subjects == {ANN: ["Cheap"], BOB: ["Cheap"]}


async def test_only_one_process_sends(site: DigestSite) -> None:
    await site.hold(BEFORE)
    with site.state.locked(), pytest.raises(InputError, match="another process"):
        await site.digests.send_due(DUE)
    assert await site.digests.send_due(DUE)
    assert len(site.server.received) == 1


async def test_without_redis_nobody_gets_what_he_may_have_switched_off(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with Redis.from_url(own_redis.url) as client, open_digests(client, tmp_path) as site:
        await site.digests.send_due(DUE - DAY)
        await site.hold(BEFORE)
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await site.digests.send_due(DUE)
        assert site.server.received == []


# What is noted of the users.


def test_a_file_that_cannot_be_used_is_said_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite").write_text("this is no database\n" * 1000)
    with closing(StateFile(tmp_path)) as file:
        state = DigestState(file)
        for call in (state.last_done, lambda: state.marker(ANN), lambda: state.set_last_done(5.0)):
            with pytest.raises(InputError, match=r"state\.sqlite: the file is damaged"):
                call()
