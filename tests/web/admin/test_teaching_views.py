"""The views teaching, undo and tokens on a real listener, over a model in a real Redis."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import unescape

import pytest
from redis.asyncio import Redis

from nbstream.daemon.config import Settings
from nbstream.filter import learned_by_class
from nbstream.filter.suspects import Suspect, find_suspects
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState
from nbstream.server.http.access import Role
from nbstream.store.model.history import Assessment, HistoryChange, LessonNote, RecentChanges
from nbstream.store.model.model import Model
from nbstream.store.recent.message_rows import RowSearch
from nbstream.web.admin import undo_view
from nbstream.web.admin.teaching_view import (
    TeachingView,
    contradicts_verdict,
    summarize_teaching,
)
from nbstream.web.admin.undo_view import UndoView
from tests.harness.filters import make_filter
from tests.harness.samples import samples
from tests.web.admin.page_listener import Browser, PageListener, open_page

PRIZE = Message.parse(b"Subject: prize\n\nClaim your free prize now\n")
LUNCH = Message.parse(b"Subject: lunch\n\nShall we have lunch on Friday?\n")
HOSTILE = "<script>alert(1)</script>{{ 1111*1111 }}\u202e"
SETTINGS = Settings.model_validate({"model": {"name": "test", "min_learned": 1}})


@dataclass
class Site:
    """A model that people teach, and the page over it."""

    model: Model
    page: PageListener
    state: ModelState = field(default_factory=lambda: ModelState({"ham": 0, "spam": 3}, {"ham": 200, "spam": 3}))
    autolearned: Mapping[str, int] | None = None
    looked_at: int = 0

    async def teach(self, message: Message, label: str | None, actor: str = "ann", source: str = "smtp") -> None:
        spam_filter = make_filter(self.model.client)
        if label:
            await spam_filter.learn(message, label, source, actor)
        else:
            await spam_filter.unlearn(message, source, actor)

    async def history(self) -> list[tuple[str, str, str]]:
        """Newest first."""
        changes = [change async for change in self.model.history.changes()]
        return [(change.description, change.note.source, change.note.actor) for change in changes]


@pytest.fixture
async def site(client: Redis) -> AsyncIterator[Site]:
    model = await Model(client, "test", 3600).open()
    sites: list[Site] = []
    spam_filter = make_filter(client)

    async def suspects(message_keys: Iterable[str]) -> Sequence[Suspect]:
        sites[0].looked_at += 1
        return await find_suspects(model, spam_filter.parts.make_scorer(spam_filter.policy), message_keys)

    async def by_class() -> Mapping[str, int]:
        people, _ = await model.stored_totals()
        return learned_by_class(people, ("ham", "newsletter"))

    find_rows = RowSearch(client, model.keys, 3600).rows
    views = (
        TeachingView(
            RecentChanges(model.history),
            model_state=lambda: sites[0].state,
            autolearned=lambda: sites[0].autolearned,
            find_rows=find_rows,
            find_suspects=suspects,
            class_names=lambda: ("ham", "newsletter", "spam"),
            learned_by_class=by_class,
        ),
        UndoView(model, find_rows, lambda: ("ham", "newsletter", "spam")),
    )
    async with open_page(client, *views) as page:
        sites.append(Site(model, page))
        yield sites[0]


@pytest.fixture
async def reader(site: Site) -> AsyncIterator[Browser]:
    async with site.page.browser(Role.READ) as browser:
        yield browser


@pytest.fixture
async def teacher(site: Site) -> AsyncIterator[Browser]:
    async with site.page.browser(Role.TEACH) as browser:
        yield browser


async def seen(browser: Browser, path: str, status: int = 200) -> str:
    """The text of a page as a person reads it, without its tags."""
    answer = await browser.get(path)
    assert answer.status == status, answer.text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def in_list(shown: str) -> str:
    """What is below the form that filters the list."""
    return shown.rpartition("Search")[2]


def hidden_fields(html: str) -> dict[str, str]:
    return {
        name: unescape(value)
        for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)">', html)
    }


async def test_who_taught_what_is_shown_and_filtered(site: Site, reader: Browser) -> None:
    await site.teach(PRIZE, "spam")
    await site.teach(LUNCH, "ham", "ben", "http")
    await site.teach(LUNCH, "spam", "ben", "http")

    shown = await seen(reader, "/ui/teaching")
    of_ben = await seen(reader, "/ui/teaching?actor=ben&label=ham")
    from_smtp = await seen(reader, "/ui/teaching?source=smtp&since=1h")

    assert "The last 3 changes, since" in shown
    assert re.findall(r"(?:re)?learned (?:ham -> )?\w+", in_list(shown)) == [
        "relearned ham -> spam",
        "learned ham",
        "learned spam",
    ]
    assert re.findall(r"(?:re)?learned \w+", in_list(of_ben)) == ["learned ham"]
    assert re.findall(r"(?:re)?learned \w+", in_list(from_smtp)) == ["learned spam"]


async def test_kinds_of_ham_are_classes_too(site: Site, reader: Browser) -> None:
    spam_filter = make_filter(site.model.client)
    with_kinds = spam_filter.with_policy(spam_filter.policy._replace(kinds=("ham", "newsletter")))
    await with_kinds.learn(LUNCH, "newsletter", "smtp", "ann")
    await site.teach(PRIZE, "ham")

    assert "By class: ham 1, newsletter 1, spam 0." in await seen(reader, "/ui/teaching")
    for path in ("/ui/teaching?label=newsletter", "/ui/undo?since=1h&label=newsletter"):
        shown = await seen(reader, path)
        assert "learned newsletter" in shown
        assert "learned ham" not in shown
        assert "any ham newsletter spam" in shown


async def test_the_list_goes_on_page_by_page(site: Site, reader: Browser) -> None:
    for label, raw in samples(60):
        await site.teach(Message.parse(raw), label)

    keys: list[str] = []
    path = "/ui/teaching"
    while path:
        html = (await reader.get(path)).text.partition('id="list"')[2]
        keys += re.findall(r'href="/ui/messages/(\w+)"', html)
        following = re.search(r'rel="next" href="([^"#]+)', html)
        path = unescape(following[1]) if following else ""

    assert keys == [change.message_key async for change in site.model.history.changes()]


async def test_what_is_learned_without_people_stands_beside_what_people_taught(
    site: Site, reader: Browser
) -> None:
    assert "Learned automatically" not in await seen(reader, "/ui/teaching")

    site.autolearned = {"ham": 1234, "spam": 0}

    shown = await seen(reader, "/ui/teaching")
    assert "Learned Learned automatically Needed" in shown
    assert "ham 0 1,234 200 200" in shown
    assert "implicit ham" not in shown


async def test_an_undo_is_previewed_exactly_and_changes_nothing(site: Site, teacher: Browser) -> None:
    await site.teach(LUNCH, "ham", "ben")
    await site.teach(PRIZE, "ham", "mallory")
    await site.teach(PRIZE, "spam", "mallory")
    before = await site.history()

    shown = await seen(teacher, "/ui/undo?since=2h&actor=mallory")

    assert "2 changes would be taken back." in shown
    assert "Take back 2 changes" in shown
    assert await site.history() == before


@pytest.mark.parametrize("until", ["", "&until=9000-01-01"])
async def test_what_is_confirmed_is_what_was_shown(site: Site, teacher: Browser, until: str) -> None:
    await site.teach(LUNCH, "ham", "ben")
    await site.teach(PRIZE, "ham", "mallory")
    form = hidden_fields((await teacher.get(f"/ui/undo?since=2h&actor=mallory{until}")).text)
    later = Message.parse(b"Subject: later\n\nThis came after the preview\n")
    await site.teach(later, "ham", "mallory")

    answer = await teacher.post("/ui/undo", {name: value for name, value in form.items() if name != "csrf"})

    assert (answer.status, answer.target) == (303, "/ui/teaching?source=undo")
    assert "1 change was taken back." in await seen(teacher, answer.target)
    assert (await site.history())[0] == ("unlearned ham", "undo", "page tester")
    assert await site.model.entry(PRIZE.key) is None
    assert await site.model.entry(later.key) is not None


async def test_too_many_changes_are_for_the_command(
    site: Site, teacher: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.teach(PRIZE, "ham")
    await site.teach(LUNCH, "ham")
    for bound in ("MAX_READ", "MAX_SELECTED"):
        with monkeypatch.context() as patched:
            patched.setattr(undo_view, bound, 1)
            assert "run nbstream undo" in await seen(teacher, "/ui/undo?since=1h", 400)
            assert (await teacher.post("/ui/undo", {"since": "1h"})).status == 400
    assert len([change async for change in site.model.history.changes()]) == 2


# ``nbstream.web.admin.teaching_view``: pure, over changes that are made up.

NOON = datetime(2026, 6, 15, 12).astimezone().timestamp()
_numbers: Iterator[int] = iter(range(1, 10**9))


def change(
    label: str | None = "spam",
    former: str | None = None,
    *,
    at: float = NOON,
    key: str = "",
    verdict: str = "unsure",
    probability: float = 0.5,
    source: str = "http",
    actor: str = "ann",
) -> HistoryChange:
    number = next(_numbers)
    before = Assessment(probability, verdict)
    return HistoryChange(
        id=b"%d-%d" % (at * 1000, number),
        at=at,
        message_key=key or f"m{number}",
        label=label,
        version=f"v{number}" if label else None,
        former_label=former,
        former_version="v0" if former else None,
        note=LessonNote(source, actor, before, before),
    )


def test_who_taught_most_comes_first_with_what_went_against_the_verdict() -> None:
    changes = [
        change("spam", actor="ben", at=NOON),
        change("ham", verdict="spam"),
        change("spam", verdict="reject"),
        change(None, "spam", at=NOON - 5),
    ]

    ann, ben = summarize_teaching(changes).teachers

    assert (ann.actor, dict(ann.learned), ann.taken_back, ann.contradicting) == (
        "ann",
        {"ham": 1, "spam": 1},
        1,
        1,
    )
    assert (ben.actor, ben.changes, ben.last_at) == ("ben", 1, NOON)


@pytest.mark.parametrize(
    ("label", "verdict", "contradicts"),
    [
        ("ham", "spam", True),
        ("ham", "reject", True),
        ("spam", "ham", True),
        ("ham", "ham", False),
        ("spam", "reject", False),
        ("spam", "unsure", False),
        (None, "ham", False),
    ],
)
def test_a_label_contradicts_the_opposite_verdict(label: str | None, verdict: str, contradicts: bool) -> None:
    assert contradicts_verdict(change(label, None if label else "spam", verdict=verdict)) == contradicts


async def suspects_section(browser: Browser) -> str:
    html = (await browser.get("/ui/teaching")).text
    return html.partition('aria-labelledby="suspects"')[2].partition("</section>")[0]


async def test_labels_that_all_others_contradict_are_shown_to_be_changed(site: Site, teacher: Browser) -> None:
    pairs = [(label, Message.parse(raw)) for label, raw in samples(80)]
    for label, message in pairs[1:]:
        await site.teach(message, label)
    label, message = pairs[0]
    wrong = "ham" if label == "spam" else "spam"
    assert "Labels that may be wrong" not in await seen(teacher, "/ui/teaching")

    await site.teach(message, wrong, HOSTILE)
    section, again = await suspects_section(teacher), await suspects_section(teacher)

    assert f"This message taught as {wrong} looks like {label}." in section
    (message_id,) = re.findall(r'name="id" value="(\w+)"', section)
    assert f"/ui/messages/{message_id}" in section
    assert '<form method="post" action="/ui/messages">' in section
    assert 'value="newsletter">These are newsletter' in section
    assert HOSTILE not in section
    assert (again, site.looked_at) == (section, 2)  # once for each of two states of the model
