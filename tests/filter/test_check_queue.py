"""Messages stand in line, and others go on between them."""

from __future__ import annotations

import asyncio

from nbstream.filter import CheckQueue


async def steps(line: CheckQueue, leaving: str = "") -> list[str]:
    """What happens in which order where a, b and c come at once, beside something that is always ready."""
    seen: list[str] = []

    async def stand(name: str) -> None:
        await line.wait_for_turn()
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


async def test_others_go_on_between_two_that_stand_in_line() -> None:
    seen = "".join(await steps(CheckQueue()))

    assert [each for each in seen.split("-") if each] == ["a", "b", "c"]


async def test_who_leaves_is_not_waited_for() -> None:
    seen = "".join(await steps(CheckQueue(), leaving="b"))

    assert seen.replace("-", "") == "ac"


async def test_who_comes_when_nobody_is_there_does_not_wait() -> None:
    line = CheckQueue()
    await steps(line)
    await asyncio.sleep(0)

    turn = line.wait_for_turn()
    try:
        turn.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")
