"""Texts that strangers write reach each field that a view shows: nothing of them runs, and the layout holds."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from itertools import zip_longest
from pathlib import Path
from urllib.parse import urlencode

import pytest

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.mail.message import Message
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokens import Tokens
from tests.browser.conftest import OpenVisitor
from tests.browser.remembered_messages import remember
from tests.browser.site import Site, open_site, run_aside
from tests.browser.test_views import all_views
from tests.browser.visitor import NARROW, Look, Visitor
from tests.harness.daemon import send, wait_until
from tests.harness.samples import samples

pytestmark = pytest.mark.timeout(300)  # some dozens of pages

PRODUCT = "1234321"
"""What a template would make of the two numbers in the texts."""

TEXTS = (
    "<script>window.ran=1;alert(1)</script>",
    '"><img src=x onerror="window.ran=1">',
    "' onmouseover='window.ran=1' autofocus onfocus='window.ran=1",
    "</title></textarea></select></script></style><svg onload=window.ran=1>",
    "--><iframe srcdoc='<script>parent.ran=1</script>'></iframe><base href=http://192.0.2.1/>",
    "javascript:window.ran=1",
    "{{ 1111*1111 }}${1111*1111}{% include 'layout.html' %}{#",
    "\u202egnp.sevitcefed\u2066\u200f\u061c",
    "\x00\x07\x08\x1b[2J\r\nSet-Cookie: a=b",
    "Z" + "\u0301\u0489" * 400,
    "W" * 3000,
    "\ufdfd" * 60,
    "\udcff\ud800&#0;&lt;b&gt;",
)

QUERIES = (
    ("/ui/login", "link to", 200),
    ("/ui/messages", "id sender recipient verdict action policy since until older select", 200),
    ("/ui/quarantine", "sender recipient order before select", 200),
    ("/ui/teaching", "actor source id label", 200),
    ("/ui/teaching", "since", 400),
    ("/ui/teaching", "before", 400),
    ("/ui/senders", "user", 400),
    ("/ui/undo", "actor source id label", 200),
    ("/ui/undo", "since", 400),
)
"""Views, the fields of their addresses, and the status of the answer to hostile texts in them.

A field for which the whole page is refused stands by itself.
"""

REMARKS = ("console: Failed to load resource", "console: The specified value ")
"""What the browser says of an answer that refuses something, and of a text in a field for a number."""

_TAGS = ("script", "img", "iframe", "object", "embed", "base", "style", "link", "meta")
_ATTRIBUTES = ("onload", "onerror", "onmouseover", "onfocus", "srcdoc", "autofocus", "style")
_ADDRESSES = [
    f'[{name}^="{scheme}:" i]'
    for name in ("href", "src", "action")
    for scheme in ("javascript", "data", "http", "https")
]
TAUGHT = list(samples(60))
TAUGHT_BY_HOSTILE = list(samples(15, seed=9))
LETTERS = {Message.parse(raw).key for _, raw in TAUGHT + TAUGHT_BY_HOSTILE}
"""The ids of messages without hostile texts of their own."""

INTRUDERS = ", ".join(
    (
        *(f"main {tag}" for tag in _TAGS),
        *(f"main [{name}]" for name in _ATTRIBUTES),
        *(f"main {a}" for a in _ADDRESSES),
    )
)


def hostile_mail() -> bytes:
    """A mail with hostile texts wherever a mail can have them; its words are those of spam."""
    mail = EmailMessage()
    mail["From"] = '"<script>window.ran=1</script>" <"><img/src=x>"@offers.example.com>'
    mail["To"] = "you@example.net"
    mail["Subject"] = "claim free prize cash <svg/onload=window.ran=1>{{ 1111*1111 }} \u202ewinner"
    mail["Message-ID"] = "<'><script>window.ran=1</script>@example.org>"
    words = "claim free prize winner cash offer limited pills casino bonus click urgent"
    mail.set_content("\n".join((words, *(text.encode("utf-8", "replace").decode() for text in TEXTS))))
    mail.add_alternative(
        f"<p>{words}</p><script>window.ran=1</script><img src=http://192.0.2.1/x>", subtype="html"
    )
    mail.add_attachment(b"x", "application", "x", filename='"><script>window.ran=1</script>\u202egnp.exe')
    return mail.as_bytes()


def well_formed(text: str) -> str:
    """The text without surrogates and NUL, which configurations and histories cannot have."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def remembered() -> Iterator[tuple[CheckedMessage, RememberedEnvelope]]:
    """Checked messages with hostile texts in each field, two after each other."""
    for number, texts in enumerate(zip_longest(TEXTS[::2], TEXTS[1::2], fillvalue="")):
        text = "".join(texts)
        token = well_formed(text).replace("\n", " ").encode()
        tokens = Tokens([b"subject:" + token, token], [b"body:" + token])
        key = chr(ord("a") + number) * 24
        envelope = RememberedEnvelope(text, text, (text, text), 70_000, text, text)
        yield CheckedMessage(key, tokens, 0.5, "unsure", well_formed(text)), envelope


async def teach(config_file: Path) -> None:
    """Teach messages as ham and spam, in the names of hostile teachers, one of whom contradicts the verdicts."""
    async with open_one_shot_filter(config.load_settings(config_file)) as (spam_filter, _):
        for number, name in enumerate(map(well_formed, TEXTS[::2])):
            message = Message.parse(f"Subject: {number}\n\n{name}\n".encode())
            await spam_filter.learn(message, "spam", name, name)
            await spam_filter.learn(message, "ham", name, name)
        for label, raw in TAUGHT_BY_HOSTILE:
            await spam_filter.learn(Message.parse(raw), "ham" if label == "spam" else "spam", TEXTS[0], TEXTS[0])


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("hostile"), {"actions": {"spam": "quarantine"}}) as site:
        send(site.daemon, [(f"{label}@nbstream.invalid", raw) for label, raw in TAUGHT])
        send(site.daemon, [("you@example.net", hostile_mail())])
        wait_until(lambda: len(site.message_ids()) == 1)
        run_aside(teach(site.config))
        run_aside(remember(site.config, list(remembered())))
        yield site


def header_box(visitor: Visitor) -> object:
    """Where the header of the page is."""
    return visitor.page.locator("body > header").bounding_box()


# What is seen of a page in one look: a page has to be looked at dozens of times.
_SEEN = """([intruders, product]) => ({
  ran: Boolean(window.ran),
  intruders: [...document.querySelectorAll(intruders)].map((element) => element.outerHTML.slice(0, 200)),
  filled: document.documentElement.outerHTML.includes(product),
  title: document.title,
})"""


def faults(visitor: Visitor, header: object) -> list[str]:
    """What hostile texts did to the page that a visitor sees; ``header`` is where a clean page has its header."""
    seen = visitor.page.evaluate(_SEEN, [INTRUDERS, PRODUCT])
    return [
        *(["a script ran"] if seen["ran"] else []),
        *(f"intruder: {html}" for html in seen["intruders"]),
        *(["a template was filled in"] if seen["filled"] else []),
        *([f"title: {seen['title']!r}"] if not seen["title"].endswith("nbstream") else []),
        *(["the header moved"] if header_box(visitor) != header else []),
        *visitor.overflowing(),
        *visitor.take_problems(),
    ]


def clean_header(visitor: Visitor, path: str = "/ui/undo") -> object:
    """Where the header is on a page on which nobody else has written anything."""
    visitor.go(path)
    return header_box(visitor)


def links(visitor: Visitor) -> list[str]:
    """Where the page leads to: each message with hostile texts of its own, and one link of each other kind."""
    found = visitor.page.eval_on_selector_all(
        "main a[href^='/ui/']", "all => all.map(a => a.getAttribute('href'))"
    )
    kinds: dict[str, str] = {}
    for link in (link.partition("#")[0] for link in found):
        is_message = link.startswith("/ui/messages/")
        is_message = link.rpartition("/")[2] in LETTERS
        kinds.setdefault("letter" if is_message else link if is_message else link.partition("?")[0], link)
    return list(kinds.values())


def test_nothing_runs_and_the_layout_holds(visit: OpenVisitor, hostile_site: Site) -> None:
    visitor = visit(hostile_site.origin, Look(NARROW))
    hostile_site.log_in(visitor)
    header = clean_header(visitor)
    found: dict[str, list[str]] = {}

    views = all_views(visitor)
    waiting = list(views)
    while waiting:
        path = waiting.pop()
        status = visitor.go(path).status
        found[path] = [*([f"status {status}"] if status != 200 else []), *faults(visitor, header)]
        if path in views:
            waiting += [link for link in links(visitor) if link not in {*found, *waiting}]

    assert {path: of_path for path, of_path in found.items() if of_path} == {}
    assert len([path for path in found if path.startswith("/ui/messages/")]) > len(TEXTS) // 2


def test_nothing_of_an_address_runs(visit: OpenVisitor, hostile_site: Site) -> None:
    visitor = visit(hostile_site.origin, Look(NARROW))
    hostile_site.log_in(visitor)
    headers = {path: clean_header(visitor, path) for path in {path for path, _, _ in QUERIES}}

    found = {}
    for path, names, expected in QUERIES:
        query = urlencode(dict.fromkeys(names.split(), "".join((*TEXTS[:4], *TEXTS[6:8]))))
        status = visitor.go(f"{path}?{query}").status
        refused = (f"answer: {expected} ", *REMARKS)  # the page says it in words
        problems = [each for each in faults(visitor, headers[path]) if not each.startswith(refused)]
        if problems or status != expected:
            found[path, names] = [f"status {status}", *problems]
    assert found == {}
