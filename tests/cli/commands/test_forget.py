"""``nbstream forget``, over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nbstream.policy.envelope import RememberedEnvelope
from nbstream.policy.own_models.names import OwnModelNames
from nbstream.policy.verdict import ActionKind
from nbstream.store.logins import USER_ROLE, PageSessionStore
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage, RecentMessages
from nbstream.store.recent.message_rows import OutcomeKind, QuarantineOutcomes
from nbstream.store.settings import MemorySettings
from nbstream.tokens.tokens import Tokens
from nbstream.web.users import erasure
from nbstream.web.users.preferences import UserPreferences
from tests.cli.taught import Taught
from tests.harness.lessons import TOKENS, change, entry

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"
LOAN = b"Subject: loan\n\nA cheap loan for you\n"
ANN, BOB = "ann@example.org", "bob@example.org"


@pytest.fixture
def site(taught: Taught) -> Taught:
    """A model that knows two letters; users of example.org have own models."""
    rules = "models: [{match: '*@example.org', name: '{domain}/{local}'}]\n"
    state = f"state_dir: {taught.config.parent}\n"
    taught.config.write_text(taught.config.read_text() + rules + state)
    taught.teach(PRIZE, "spam", "admin")
    taught.teach(LUNCH, "ham", "admin")
    return taught


def file(folder: Path, raw: bytes) -> str:
    path = folder / "message.eml"
    path.write_bytes(raw)
    return str(path)


def dump(site: Taught) -> Mapping[bytes, Any]:
    """All keys of Redis but the change streams, with their values."""

    async def run(model: Model) -> dict[bytes, Any]:
        client: Any = model.client
        found: dict[bytes, Any] = {}
        readers: dict[bytes, Any] = {
            b"string": client.get,
            b"hash": client.hgetall,
            b"set": client.smembers,
            b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            b"stream": client.xrange,
        }
        async for key in client.scan_iter("*"):
            if not key.endswith(b":changes"):
                found[key] = await readers[await client.type(key)](key)
        return found

    return site.model(run)


def names_of(site: Taught, address: str) -> list[bytes]:
    """The keys in which a user can be found."""
    texts = (
        address.encode(),
        address.replace("@", "/").encode(),
        b"/".join(reversed(address.encode().split(b"@"))),
    )
    return [key for key, value in dump(site).items() if any(text in key + repr(value).encode() for text in texts)]


def remember(
    site: Taught,
    key: str,
    *recipients: str,
    sender: str = "eve@home.example",
    subject: str = "hi",
    released_by: str = "",
    header_from: str | None = None,
) -> None:
    """A message that was checked for these recipients, and whoever released it."""

    async def run(model: Model) -> None:
        memory = RecentMessages(
            model.client,
            model.keys,
            MemorySettings(envelope=True),
            lambda _: None,
            user_of=OwnModelNames(delimiter="+").user_of,
        )
        writing = asyncio.create_task(memory.run())
        envelope = RememberedEnvelope(
            "smtp", sender, recipients, len(recipients), subject, str(ActionKind.PASS), header_from
        )
        tokens = Tokens.from_all((b"body:hi",))
        memory.remember(CheckedMessage(key, tokens, 0.5, "unsure"), None, lambda: envelope)
        await memory.wait_until_written()
        writing.cancel()
        if released_by:
            await QuarantineOutcomes(model.client, model.keys).note(key, OutcomeKind.RELEASED, released_by)

    site.model(run)


def fill(site: Taught, address: str, folder: Path) -> None:
    """Everything that may be stored of a user."""
    site("learn", "ham", "--user", address, file(folder, PRIZE))
    site.teach(LOAN + address[:1].encode(), "spam", address, "digest")
    site.teach(PRIZE + address[:1].encode(), "ham", f"user root for {address}", "cli")
    site("list", "add", "allow", "boss@partner.example", "--user", address)
    remember(site, address[:1] * 24, address)

    async def run(model: Model) -> None:
        await PageSessionStore(model.client, ModelKeys("test")).create_session(USER_ROLE, address)
        await UserPreferences(model.client, model.keys).set_digest(address, wanted=False)

    site.model(run)


def test_without_yes_it_says_what_would_be_erased(site: Taught, tmp_path: Path) -> None:
    fill(site, ANN, tmp_path)
    before = dump(site)

    out, _ = site("forget", "--user", ANN)

    assert "       1  messages that their own model example.org/ann has learned\n" in out
    assert "       2  messages that the common model has learned from them\n" in out
    assert "       1  remembered messages to them or that name them\n" in out
    assert out.endswith("nothing was changed; --yes erases it\n")
    assert dump(site) == before


def test_nothing_of_a_user_is_left_and_all_of_the_others(site: Taught, tmp_path: Path) -> None:
    fill(site, BOB, tmp_path)
    before, counts = names_of(site, BOB), site.stored()
    others = {key: value for key, value in dump(site).items() if b"bob" in key}
    fill(site, ANN, tmp_path)
    assert len(names_of(site, ANN)) >= 8
    assert site.stored() != counts

    out, _ = site("forget", "--user", "Ann+news@Example.ORG", "--yes")

    assert out.endswith("erased; looked again: nothing of the user is left\n")
    assert names_of(site, ANN) == []
    assert sorted(names_of(site, BOB)) == sorted(before)
    assert site.stored() == counts
    assert {key: value for key, value in dump(site).items() if b"bob" in key} == others
    (again,) = site.json("forget", "--user", ANN)
    assert not any(again["erased"].values())


@pytest.mark.parametrize(
    ("to", "row"),
    [
        ((), {"sender": ANN}),
        ((), {"header_from": "Ann Example <Ann@Example.org>"}),
        ((ANN,), {"sender": "list-return-7-ann=example.org@lists.example"}),
        ((), {"subject": f"Ann <{ANN}>, you have won"}),
        ((), {"released_by": ANN}),
        (('"ann"@EXAMPLE.org.',), {}),
    ],
    ids=["sender", "From", "sender of a list", "subject", "release", "spelling"],
)
def test_a_message_to_others_that_names_the_user_is_forgotten(
    site: Taught, to: tuple[str, ...], row: dict[str, str]
) -> None:
    remember(site, "a" * 24, BOB, *to, **row)

    out, _ = site("forget", "--user", ANN, "--yes")

    assert "       1  remembered messages to them or that name them\n" in out
    assert not any(b"a" * 24 in key for key in dump(site))


def test_an_address_that_only_begins_like_that_of_the_user_stays(site: Taught) -> None:
    other = f"{ANN}.uk"
    remember(site, "a" * 24, BOB, subject=f"from {other}", header_from=f"Annabel <{other}>")

    site("forget", "--user", ANN, "--yes")

    (value,) = (value for key, value in dump(site).items() if b":row:" in key)
    assert value.count(other.encode()) == 2


def test_his_lessons_are_found_when_the_history_is_trimmed(site: Taught) -> None:
    before = site.stored()
    site.teach(LOAN, "ham", ANN)
    site.model(lambda model: model.client.xtrim(model.keys.history, maxlen=0, approximate=False))

    site("forget", "--user", ANN, "--yes")

    assert site.stored() == before
    assert names_of(site, ANN) == []


def test_an_erasure_that_was_killed_is_finished_by_the_next(
    site: Taught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.stored()
    fill(site, ANN, tmp_path)

    class Killed(BaseException):
        pass

    async def killed(*_arguments: object, **_options: object) -> int:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_erase_records", killed)
        with pytest.raises(Killed):
            site("forget", "--user", ANN, "--yes")
    assert names_of(site, ANN)

    site("forget", "--user", ANN, "--yes")

    assert names_of(site, ANN) == []
    assert site.stored() == before


def test_an_own_model_is_removed_and_nothing_else(site: Taught, tmp_path: Path) -> None:
    fill(site, ANN, tmp_path)
    common = site.stored()
    assert "would be removed: model example.org/ann" in site("forget", "--model", "example.org/ann")[0]
    assert len(site.json("model", "list")) == 1

    out, _ = site("forget", "--model", "example.org/ann", "--yes")

    assert out.startswith("removed: model example.org/ann, which has learned 1 ham, 0 spam, ")
    assert site.json("model", "list") == []
    assert site.stored() == common
    site("forget", "--model", "example.org/ann", "--yes", code=66)


def learn_auto(taught: Taught, count: int) -> None:
    """Learn so many spam without people."""

    async def run(model: Model) -> None:
        for number in range(count):
            await change(model, f"m{number}", entry("auto-spam:0", TOKENS))

    taught.model(run)


def test_without_yes_what_was_learned_without_people_is_previewed(taught: Taught) -> None:
    learn_auto(taught, 3)

    for _ in range(2):
        out, err = taught("forget", "--auto")
        assert (out, err) == (
            "would be dropped: 0 ham, 3 spam, 8 tokens, learned without people\n"
            "nothing was changed; --yes does it\n",
            "",
        )


def test_with_yes_what_was_learned_without_people_is_gone_and_what_people_taught_is_not(taught: Taught) -> None:
    taught.teach(b"Subject: prize\n\nClaim your prize\n", "spam")
    *before, of_people = taught.stored()
    learn_auto(taught, 3)

    assert taught("forget", "--auto", "--yes")[0] == "dropped: 0 ham, 3 spam, 8 tokens, learned without people\n"

    *counts, totals = taught.stored()
    assert counts == before
    assert totals == {**of_people, b"generation": b"1"}
    assert taught.json("forget", "--auto", "--yes") == [
        {"done": True, "dropped": {"ham": 0, "spam": 0}, "tokens": 0}
    ]
