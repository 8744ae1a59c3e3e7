"""An administrator, who uses the page of any host while all of it is attacked.

Rules: he follows links, keeps event streams open, and teaches messages of his own with the buttons of the page,
one after the other; so the history must say of them what he was told. He releases mail from the quarantine, and
removes none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.soak.chaos.journal import ACKNOWLEDGEMENTS
from tests.soak.chaos.page_session import VIEWS, PageSession, links_in
from tests.soak.chaos.site import Host, Site
from tests.soak.chaos.teachers import LABELS, Teachers
from tests.soak.chaos.teaching import key_of, run_command

_FIRST_NUMBER = 500_000_000
_PAUSE_SECONDS = 0.1
_RETRY_SECONDS = 0.5
_TRIES = 20
_MAX_LINKS = 200


class Administrator:
    """One administrator, until ``finishing`` is set. What he teaches is among the messages of ``teachers``."""

    def __init__(self, site: Site, teachers: Teachers, finishing: asyncio.Event, seed: int) -> None:
        self._hosts = list(site.hosts.values())
        self._journal = site.journal
        self._teachers = teachers
        self._finishing = finishing
        self._generator = random.Random(f"{seed} administrator")
        self._session = PageSession(site.journal)
        self._links = set(VIEWS)
        self._last_number = _FIRST_NUMBER

    async def can_use(self, host: Host) -> bool:
        """Return whether a host shows all views, as it must after the last fault."""
        try:
            await self._log_in_if_needed(host)
            statuses = [(await self._session.read(host, path))[0] for path in VIEWS]
            return set(statuses) == {200}
        except (OSError, EOFError):
            return False

    async def run(self) -> None:
        """Use the page until the end."""
        ways: list[Callable[[Host], Awaitable[object]]] = [self._follow_link, self._teach, self._reinforce]
        ways += [self._follow_link, self._teach, self._undo, self._release, self._log_out]
        weights = [8, 4, 2, 8, 4, 1, 2, 0.2]
        while not self._finishing.is_set():
            host = self._generator.choice(self._hosts)
            try:
                await self._log_in_if_needed(host)
                await self._generator.choices(ways, weights)[0](host)
            except (OSError, EOFError):
                self._journal.pages["no answer"] += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _log_in_if_needed(self, host: Host) -> None:
        if not self._session.is_open:
            code, output = await run_command(host, "ui")
            if code == 0:
                link = next(word for word in output.split() if "/ui/login?link=" in word)
                await self._session.log_in(host, link)

    async def _log_out(self, host: Host) -> None:
        await self._session.log_out(host)

    async def _follow_link(self, host: Host) -> None:
        path = self._generator.choice(sorted(self._links))
        _, text = await self._session.read(host, path)
        found = links_in(text)
        if len(self._links) + len(found) > _MAX_LINKS:
            self._links = set(VIEWS)
        self._links |= found

    async def _teach(self, host: Host) -> None:
        number, label = self._choose_number(), self._generator.choice(LABELS)
        for _ in range(_TRIES):
            if await self._is_checked(host, number):
                outcome = await self._teachers.teaching.by_page(self._session, host, number, label)
                if outcome in ACKNOWLEDGEMENTS or not self._session.is_open:
                    return
            await asyncio.sleep(_RETRY_SECONDS)
            host = self._generator.choice(self._hosts)

    async def _reinforce(self, host: Host) -> None:
        number = self._choose_number(new=0.0)
        button = await self._session.reinforcing_button(host, key_of(number))
        if button:
            await self._teachers.teaching.by_reinforcing(self._session, host, number, *button)

    async def _undo(self, host: Host) -> None:
        await self._teachers.teaching.by_page_undo(self._session, host, self._choose_number(new=0.0))

    async def _release(self, host: Host) -> None:
        mails = await self._session.held_mails(host)
        if mails:
            key = self._generator.choice(sorted(mails))
            self._teachers.numbers.add(mails[key])
            await self._teachers.teaching.by_release(self._session, host, mails[key])

    def _choose_number(self, new: float = 0.5) -> int:
        """Return the number of a new message with that probability, else of one of the last ones."""
        if self._last_number == _FIRST_NUMBER or self._generator.random() < new:
            self._last_number += 1
            self._teachers.numbers.add(self._last_number)
            return self._last_number
        return self._generator.randrange(max(_FIRST_NUMBER, self._last_number - 30), self._last_number) + 1

    async def _is_checked(self, host: Host, number: int) -> bool:
        """Let a message be checked, so that the page knows it; return whether it was."""
        try:
            return (await host.check(number))[0] == 200
        except (OSError, EOFError):
            return False
