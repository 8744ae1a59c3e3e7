"""The lessons of users: what a user says goes to his own model, or to the common one where he has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.policy.lesson_source import Insistence
from nbstream.server.log_lines import log_lesson

if TYPE_CHECKING:
    from nbstream.filter import LearnableMessage, Lesson
    from nbstream.server.runtime import Runtime

DIGEST_SOURCE = "digest"
"""The source of what users teach by the links of a digest."""

USER_PAGE_SOURCE = "my"
"""The source of what users teach on their page."""


@dataclass(frozen=True, slots=True)
class UserTeacher:
    """Teaches what users say by one way, whose name is ``source``; ``runtime`` returns what is in force now."""

    source: str
    runtime: Callable[[], Runtime]

    async def learn(
        self, address: str, message: LearnableMessage, label: str, insistence: Insistence = Insistence.NEVER
    ) -> Lesson:
        """Learn, from the user with this address, that the message is ``label``.

        A repeat changes nothing, unless ``insistence`` lets the user insist. Raises ``StoreUnavailable`` or
        ``CountsFull``; nothing is half done then.
        """
        spam_filter = await self.runtime().filter_of_teacher(address, label, self.source)
        lesson = await spam_filter.learn(message, label, self.source, address, insistence)
        log_lesson(lesson, self.source, address)
        return lesson
