"""Messages stand in line, and others go on between them."""

from __future__ import annotations

import asyncio

from nbstream.filter import CheckQueue


async def steps(check_queue: CheckQueue, leaving: str = "") -> list[str]:
    """What happens in which order where a, b and c come at once, beside something that is always ready."""
    seen: list[str] = []

    async def stand(name: str) -> None:
        await check_queue.wait_for_turn()
        seen.append(name)

    async def others() -> None:
        while {"a", "b", "c"} - set(seen) - {leaving}:
            seen.append("-")
            await asyncio.sleep(0)

    standing = {name: asyncio.create_task(stand(name)) for name in "abc"}
    going_on = asyncio.create_task(others())
    await asyncio.sleep(0)
    if leaving:
        standing[leaving].cancel()
    async with asyncio.timeout(20):
        await asyncio.wait([*standing.values(), going_on])
    return seen


async def test_other_work_goes_on_between_two_checks_in_the_queue() -> None:
    seen = "".join(await steps(CheckQueue()))

    assert [part for part in seen.split("-") if part] == ["a", "b", "c"]


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    seen = "".join(await steps(CheckQueue(), leaving="b"))

    assert seen.replace("-", "") == "ac"


async def test_a_caller_does_not_wait_in_an_empty_queue() -> None:
    check_queue = CheckQueue()
    await steps(check_queue)
    await asyncio.sleep(0)

    turn = check_queue.wait_for_turn()
    try:
        turn.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")
