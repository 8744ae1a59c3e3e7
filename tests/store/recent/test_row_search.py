"""A search finds each row that is wanted once and in order, whatever comes in, and its work is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.store.connection import open_client
from nbstream.store.recent.message_rows import (
    MAX_LOOKED_AT,
    MessageRow,
    OutcomeKind,
    QuarantineOutcomes,
    RowFilter,
    RowSearch,
    normalize_address,
)
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.rows import KEYS, NOW, envelope, message_id, write_rows
from tests.store.test_locators import cluster_options

HOUR = 3600
VERDICTS = ("ham", "spam", "unsure", "reject")


def make_row(number: int, at: float) -> MessageRow:
    """A row of which all but the time follows from its number."""
    recipients = [f"r{number % 5}@y{number % 2}.example", f"all@z{number % 3}.example"][: 1 + number % 2]
    sender = None if number % 11 == 10 else "" if number % 11 == 9 else f"S{number % 7}@x{number % 3}.example"
    policy = "default" if number % 3 else "*@y1.example"
    described = envelope(sender, recipients)._replace(
        action=("pass", "quarantine", "pass, reject", "")[number % 4],
        subject=("Your Invoice", "ÉTÉ", None)[number % 3],
    )
    return MessageRow(message_id(number), at, VERDICTS[number % 4], number % 100 / 100, policy, described)


def make_search(client: Redis, seconds: float = 10 * HOUR) -> RowSearch:
    return RowSearch(client, KEYS, seconds, lambda: NOW)


async def pages(search: RowSearch, wanted: RowFilter, count: int) -> list[MessageRow]:
    """All rows that are wanted, page by page from the newest on."""
    found: list[MessageRow] = []
    position = None
    while True:
        page = await search.search(wanted, position, count=count)
        assert len(page.rows) <= count
        found += page.rows
        position = page.next_position
        if position is None:
            return found


FILTERS = st.builds(
    RowFilter,
    id_prefix=st.just("")
    | st.tuples(st.integers(0, 40), st.integers(1, 24)).map(lambda t: message_id(t[0])[: t[1]]),
    since=st.none() | st.floats(NOW - 60, NOW + 60),
    until=st.none() | st.floats(NOW - 60, NOW + 60),
    verdict=st.sampled_from(["", *VERDICTS]),
    sender=st.sampled_from(["", "<>", "s1@x1.example", "@x2.example", "nobody@x1.example"]),
    recipient=st.sampled_from(["", "r1@y1.example", "@z0.example", "@y0.example"]),
    action=st.sampled_from(["", "pass", "quarantine", "reject", "defer"]),
    policy=st.sampled_from(["", "default", "*@y1.example", "recipients[1]"]),
    subject=st.sampled_from(["", "invoice", "été", "nothing"]),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wanted=FILTERS,
    times=st.lists(st.integers(-50, 0), min_size=1, max_size=40),
    count=st.integers(1, 7),
)
@example(wanted=RowFilter(), times=[0] * 9, count=1)
@example(wanted=RowFilter(recipient="r1@y1.example"), times=[0] * 30, count=1)
async def test_every_row_that_is_wanted_is_on_one_page_in_the_order_of_time(
    client: Redis, wanted: RowFilter, times: Sequence[int], count: int
) -> None:
    await client.flushdb()
    rows = [make_row(number, NOW + at) for number, at in enumerate(times)]
    await write_rows(client, rows)
    search = make_search(client)
    expected = sorted(filter(wanted.matches, rows), key=lambda row: row.position, reverse=True)

    assert await pages(search, wanted, count) == expected

    if expected:
        middle = expected[len(expected) // 2].position
        older = await search.search(wanted, middle, count)
        assert list(older.rows) == [row for row in expected if row.position < middle][:count]


@pytest.mark.parametrize("wanted", [RowFilter(), RowFilter(verdict="ham"), RowFilter(recipient="r1@y1.example")])
async def test_messages_that_come_in_meanwhile_move_nothing(client: Redis, wanted: RowFilter) -> None:
    rows = [make_row(number, NOW - 1000 + number) for number in range(200)]
    await write_rows(client, rows)
    search = make_search(client)
    found: list[MessageRow] = []
    page = await search.search(wanted, count=10)
    for number in range(200, 1000):
        found += page.rows
        if page.next_position is None:
            break
        await write_rows(client, [make_row(number, NOW - 1000 + number)])
        page = await search.search(wanted, page.next_position, count=10)

    assert found == [row for row in reversed(rows) if wanted.matches(row)]


async def test_a_message_that_is_checked_again_has_its_new_place_alone(client: Redis) -> None:
    rows = [make_row(number, NOW - 100 + number) for number in range(10)]
    await write_rows(client, rows)
    again = make_row(3, NOW)
    await write_rows(client, [again])

    found = await pages(make_search(client), RowFilter(), 4)

    assert found == [again, *(row for row in reversed(rows) if row.id != again.id)]


def to(row: MessageRow, *recipients: str) -> MessageRow:
    return replace(row, envelope=envelope("ann@x.example", recipients))


async def test_a_message_that_comes_for_each_recipient_by_itself_is_found_by_each(client: Redis) -> None:
    addresses = ["anna@one.example", "bert@two.example", 'o"\\/\udcff\n@three.example']
    checks = [to(make_row(1, NOW - 9 + number), address) for number, address in enumerate(addresses)]
    for check in checks:
        await write_rows(client, [check])
    await write_rows(client, checks)  # the reply was lost: the batch is written again

    search = make_search(client)
    for address in [*addresses, *(f"@{address.rpartition('@')[2]}" for address in addresses)]:
        (found,) = (await search.search(RowFilter(recipient=normalize_address(address)))).rows
        assert found.envelope
        assert (found.checked_at, found.verdict) == (checks[-1].checked_at, checks[-1].verdict)
        assert set(found.envelope.recipients) == set(addresses)
        assert found.envelope.recipient_count == len(addresses)


async def test_what_became_of_a_message_does_not_lose_its_recipients(client: Redis) -> None:
    await write_rows(
        client, [to(make_row(1, NOW - 9), "anna@one.example"), to(make_row(1, NOW), "bert@two.example")]
    )

    await QuarantineOutcomes(client, KEYS).note(make_row(1, NOW).id, OutcomeKind.RELEASED, "page ann")

    (found,) = (await make_search(client).search(RowFilter(recipient="anna@one.example"))).rows
    assert found.outcome
    assert found.outcome.kind is OutcomeKind.RELEASED
    assert found.envelope
    assert found.envelope.recipients == ("bert@two.example", "anna@one.example")


async def test_what_became_of_a_message_stays_until_it_waits_in_the_quarantine_again(client: Redis) -> None:
    outcomes, search = QuarantineOutcomes(client, KEYS), make_search(client)
    first = to(make_row(1, NOW - 9), "anna@one.example")
    await write_rows(client, [first])
    await outcomes.note(first.id, OutcomeKind.RELEASED, "page ann")

    await write_rows(client, [to(make_row(1, NOW - 5), "bert@two.example")])  # with the action pass

    (found,) = (await search.search(RowFilter(recipient="anna@one.example"))).rows
    assert found.outcome
    assert found.outcome.actor == "page ann"
    again = to(make_row(1, NOW), "bert@two.example")
    assert again.envelope
    await write_rows(client, [replace(again, envelope=again.envelope._replace(action="quarantine"))])
    (found,) = (await search.search(RowFilter(recipient="anna@one.example"))).rows
    assert found.outcome is None


async def test_what_is_too_old_or_has_expired_is_not_found(client: Redis) -> None:
    rows = [make_row(number, NOW - HOUR + number) for number in range(10)]
    await write_rows(client, rows)
    await client.delete(KEYS.row(rows[7].id))
    search = make_search(client, HOUR - 5)

    expected = [rows[9], rows[8], rows[6], rows[5]]
    assert await pages(search, RowFilter(), 2) == expected
    assert await pages(search, RowFilter(id_prefix=rows[3].id), 2) == []
    assert await pages(search, RowFilter(id_prefix=rows[8].id), 2) == [rows[8]]


async def test_rows_of_a_later_version_are_left_out_and_logged_once(
    client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [make_row(number, NOW - 10 + number) for number in range(4)]
    await write_rows(client, rows)
    for row in rows[1:3]:
        await client.set(KEYS.row(row.id), b'[2,"of a later version"]')

    assert await pages(make_search(client), RowFilter(), 5) == [rows[3], rows[0]]
    (record,) = caplog.records
    assert record.message.startswith("2 messages are left out: ")


async def test_rows_are_written_and_found_in_a_cluster(server_program: Path, tmp_path: Path) -> None:
    rows = [make_row(number, NOW - 10 + number) for number in range(10)]
    with ClusterSet(server_program, tmp_path / "set") as cluster:
        async with open_client(cluster_options(cluster), retries=0) as client:
            await write_rows(client, rows)
            await write_rows(client, rows[8:], messages=6)
            search = make_search(client)

            assert await pages(search, RowFilter(), 4) == rows[:3:-1]
            for wanted in (
                RowFilter(id_prefix=rows[6].id[:2]),
                RowFilter(verdict="spam", recipient="@y1.example"),
            ):
                assert await pages(search, wanted, 4) == [row for row in rows[:3:-1] if wanted.matches(row)]


MANY = 12_000
"""How many messages are searched: so many that two searches look at all that they may."""


async def test_a_search_that_is_cut_says_how_far_it_came_and_goes_on_there(client: Redis) -> None:
    verdicts = {0: "spam"}  # and all others are ham
    rows = [
        MessageRow(message_id(number), NOW - 10_000 + number, verdicts.get(number, "ham"), 0.5)
        for number in range(MAX_LOOKED_AT + 1)
    ]
    await write_rows(client, rows, seconds=10 * HOUR)
    search = make_search(client)
    wanted = RowFilter(verdict="spam")

    page = await search.search(wanted)

    assert (page.rows, page.is_cut, page.next_position) == ((), True, rows[1].position)
    page = await search.search(wanted, page.next_position)
    assert (page.rows, page.next_position, page.is_cut) == ((rows[0],), None, False)
