"""The erasure of a user: his own model, what other models had from him, and what is remembered of him.

Rules: the steps are independent, and each can be done again: an erasure that was interrupted is finished by the
next one. Whoever erases looks again afterwards, by the same steps. Mail that is held back for him stays: it is
mail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.policy.lesson_source import user_of_actor
from nbstream.policy.sender_lists import list_owner
from nbstream.store.erasure import erase_lessons, erase_remembered
from nbstream.store.logins import USER_ROLE, LoginKeys, read_login
from nbstream.store.model.scan import scan_keys
from nbstream.store.recent.message_rows import normalize_address
from nbstream.store.redis_errors import readable_replies, store_errors
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.users.digest_state import DigestMarker
from nbstream.web.users.preferences import UserPreferences

if TYPE_CHECKING:
    from nbstream.correspondents.store import CorrespondentStore
    from nbstream.filter.own_models.index import OwnModelIndex
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.store.model.model import Model
    from nbstream.web.users.digest_state import DigestState

_PERSONAL = ("{local}", "{address}")


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """How much there is, or was, of one kind."""

    subject: str
    count: int


@dataclass(frozen=True, slots=True)
class UserErasure:
    """Erases users of the model ``common``, below which ``index`` lists own models, which ``open_own`` opens.

    ``names`` says whose an address is. ``actor`` is who erases.
    """

    common: Model
    index: OwnModelIndex
    open_own: Callable[[str], Model]
    names: OwnModelNames
    digests: DigestState
    actor: str
    correspondents: CorrespondentStore | None = None

    def own_model_of(self, address: str) -> str | None:
        """Return the name of the model that is of this user alone; None if they have none."""
        path, template = self.names.levels_of(address), self.names.template_of(address)
        return path[-1] if template and any(part in template for part in _PERSONAL) else None

    async def steps(self, address: str, *, erase: bool) -> AsyncIterator[ErasureStep]:
        """Yield what there is of the user of ``address``, or with ``erase`` what was erased.

        Raises ``InputError``, ``StoreIncompatible`` and ``StoreUnavailable``.
        """
        user = self.names.user_of(normalize_address(address))

        def is_theirs(text: str) -> bool:
            named = (text, user_of_actor(text), text.partition(" for ")[2])
            return any(name and self.names.user_of(normalize_address(name)) == user for name in named)

        own = self.own_model_of(user)
        for name in self.names.levels_of(user):
            listed = await self.index.find(name)
            if name == own:
                yield ErasureStep(
                    f"messages that their own model {name} has learned",
                    sum(listed.totals.messages) if listed else 0,
                )
                if erase:
                    await self.index.remove([name])
            elif listed:
                model = await self.open_own(name).open(sign=False)
                found = await erase_lessons(model, is_theirs, self.actor, erase=erase)
                yield ErasureStep(f"messages that model {name} has learned from them", found.lessons)
                yield ErasureStep(f"records of them in the history of model {name}", found.records)
        found = await erase_lessons(self.common, is_theirs, self.actor, erase=erase)
        yield ErasureStep("messages that the common model has learned from them", found.lessons)
        yield ErasureStep("records of them in its history", found.records)
        client, keys = self.common.client, self.common.keys
        addresses = [user, *(alias for alias, target in self.names.aliases.items() if target == user)]
        remembered = await erase_remembered(client, keys, is_theirs, addresses, erase=erase)
        yield ErasureStep("remembered messages to them or that name them", remembered)
        yield ErasureStep("senders in their list", await self._erase_lists(addresses, erase=erase))
        yield ErasureStep("choices about the digest", await self._erase_choices(addresses, erase=erase))
        if self.correspondents:  # by their address: a login of another form is not known here
            found_sent = await self.correspondents.forget(addresses, erase=erase)
            yield ErasureStep("messages they sent that name correspondents", found_sent)
        yield ErasureStep("sessions of the self-service page", await self._erase_sessions(is_theirs, erase=erase))

    async def _erase_lists(self, addresses: list[str], *, erase: bool) -> int:
        lists, count = StoredSenderLists(self.common.client, self.common.keys), 0
        for owner in map(list_owner, addresses):
            count += len(await lists.entries(owner))
            if erase:
                await lists.forget(owner)
        return count

    async def _erase_choices(self, addresses: list[str], *, erase: bool) -> int:
        preferences, count = UserPreferences(self.common.client, self.common.keys), 0
        for address in addresses:
            count += not await preferences.wants_digest(address)
            count += self.digests.marker(address) != DigestMarker()
            if erase:
                await preferences.forget(address)
                self.digests.forget(address)
        return count

    async def _erase_sessions(self, is_theirs: Callable[[str], bool], *, erase: bool) -> int:
        client, count = self.common.client, 0
        with store_errors(), readable_replies():
            async for keys in scan_keys(client, LoginKeys(self.common.keys.model).session("*")):
                for key, stored in zip(keys, await client.mget(keys), strict=True):
                    login = read_login(stored)
                    if login and login.role == USER_ROLE and is_theirs(login.name):
                        count += 1
                        if erase:
                            await client.unlink(key)
        return count
