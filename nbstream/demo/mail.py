"""Made-up mail of several kinds, which flows through the demo.

Rules: the same messages for the same seed. No name, address or text belongs to anybody: the domains are those of
RFC 2606. Each kind has words of its own and words that others have too, so that a model has something to learn.
Newsletters have no label: some people want them, and who looks at the demo decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formataddr

RECIPIENT = "you@site.example"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of mail; ``label`` is what people call it, None where they do not agree.

    Of ``senders``, ``subjects`` and ``sentences`` some are drawn for each message, and of ``words`` one for each
    ``{}`` in them. ``is_html`` says that the text is written as HTML, with a link to the sender's site.
    """

    label: str | None
    senders: tuple[tuple[str, str], ...]
    subjects: tuple[str, ...]
    sentences: tuple[str, ...]
    words: tuple[str, ...]
    is_html: bool = False


COLLEAGUES = Kind(
    "ham",
    (
        ("Ann Berger", "ann@harbour.example"),
        ("Ben Ortiz", "ben@harbour.example"),
        ("Chi Okoye", "chi@yard.example"),
    ),
    ("Minutes of the {} meeting", "Re: {} for Friday", "Draft of the {} report", "Question about the {}"),
    (
        "Here are my notes on the {}, please correct what I got wrong.",
        "Could you look at the {} before we meet on Thursday?",
        "The numbers for the {} are in the shared folder.",
        "I moved the {} to next week, because the room is taken.",
        "Thanks for your comments, they are in the new version.",
    ),
    ("budget", "crane", "safety", "summer", "harbour", "project", "timetable", "review", "contract"),
)
FAMILY = Kind(
    "ham",
    (("Dora", "dora@home.example"), ("Uncle Emil", "emil@village.example")),
    ("Photos of the {}", "Sunday at our place?", "Your {} is still here", "Happy birthday!"),
    (
        "We had a lovely time with the {}, you should have seen the children.",
        "Can you bring the {} when you come on Sunday?",
        "Grandmother asks whether you still have her {}.",
        "Call me in the evening, then we can talk about the {}.",
    ),
    ("garden", "bicycle", "cake", "tent", "dog", "umbrella", "trip to the lake", "old piano"),
)
ORDERS = Kind(
    "ham",
    (("Page & Spine Books", "orders@books.example"), ("City Trains", "tickets@trains.example")),
    ("Your order {}", "Invoice {}", "Your ticket {} is ready"),
    (
        "Thank you for your order {}. It leaves our house tomorrow.",
        "The invoice {} is attached; the amount was charged to your account.",
        "You can follow your parcel {} on our site.",
        "Keep this message as your receipt.",
    ),
    ("48120", "48377", "50114", "61209", "61992", "70031"),
    is_html=True,
)
LIST = Kind(
    "ham",
    (("Frieda Holm", "frieda@gardeners.example"), ("Gil Haas", "gil@gardeners.example")),
    ("[gardeners] When to prune {}?", "[gardeners] Snails in the {}", "Re: [gardeners] Seeds of {}"),
    (
        "Last year I cut the {} in March and it did well.",
        "Does anybody have seeds of {} to spare?",
        "Against snails in the {} a ring of sand has helped me.",
        "See you at the plant market, I bring some {}.",
    ),
    ("roses", "lettuce", "beans", "apple trees", "lavender", "tomatoes"),
)
PRIZES = Kind(
    "spam",
    (
        ("Prize Office", "winner@prizes.example"),
        ("Claims Dept", "claim@lucky.example"),
        ("Award", "a@big.example"),
    ),
    ("You have won {}", "FINAL notice: claim {}", "Congratulations, {} is waiting"),
    (
        "Your address was drawn and you have won {}.",
        "Claim your prize now, this offer ends today!",
        "To receive {} send us your bank account and a copy of your passport.",
        "Only a small fee of 49 must be paid before {} is sent to you.",
    ),
    ("$ 850,000", "a new car", "a free holiday", "1,000,000 euro", "a gold watch"),
)
PILLS = Kind(
    "spam",
    (("Dr. Well", "shop@pills.example"), ("Health Shop", "deal@cheapmeds.example")),
    ("{} without prescription", "Save 80% on {}", "Cheap {} online"),
    (
        "Order {} today and save 80%, no prescription needed.",
        "Discreet shipping of {} to your door.",
        "Thousands of happy customers buy {} from us.",
        "Click here before the offer is over.",
    ),
    ("V1agra", "weight loss pills", "sleeping pills", "miracle drops"),
    is_html=True,
)
PHISHING = Kind(
    "spam",
    (("Account Security", "security@bank-verify.example"), ("Mail Support", "admin@mailbox-quota.example")),
    ("Your {} will be closed", "Unusual login to your {}", "Verify your {} now"),
    (
        "We have noticed unusual activity in your {}.",
        "Verify your {} within 24 hours or it will be suspended.",
        "Click here and enter your password to keep your {}.",
        "This message was sent by our security department.",
    ),
    ("account", "mailbox", "credit card", "online banking"),
    is_html=True,
)
OFFERS = Kind(
    "spam",
    (("Kevin", "kevin@rank-first.example"), ("Loans", "desk@quickloan.example")),
    ("First page of search results for your site", "Instant {} approved", "Earn {} a week from home"),
    (
        "We can bring your site to the first page in 30 days, guaranteed.",
        "Your {} is approved, no credit check.",
        "Invest in our coin and earn {} a week without risk.",
        "Reply with your phone number and our expert calls you.",
    ),
    ("loan", "$ 5,000", "credit", "2,000 euro"),
)
NEWSLETTER = Kind(
    None,
    (("Gadget Weekly", "news@gadgets.example"),),
    ("This week: {}", "New in our shop: {}", "Offers of the week: {}"),
    (
        "Our editors have tested {}, and here is what they say.",
        "Until Sunday you save 20% on {}.",
        "Read more about {} on our site.",
        "You get this newsletter because you asked for it; you may leave it at any time.",
    ),
    ("lamps", "headphones", "a folding keyboard", "radios", "a coffee mill"),
    is_html=True,
)

KINDS = (COLLEAGUES, FAMILY, ORDERS, LIST, PRIZES, PILLS, PHISHING, OFFERS)
NEWSLETTER_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class DemoMail:
    """A message of the demo with what people call it; None is for each reader to say.

    ``sender`` is the name of its sender as people see it, and ``address`` that of its envelope.
    """

    label: str | None
    sender: str
    address: str
    subject: str
    raw: bytes


def labelled_mail(seed: int) -> Iterator[DemoMail]:
    """Yield messages that people agree on, without an end."""
    generator = random.Random(f"labelled {seed}")  # noqa: S311 - no secret
    while True:
        yield _write(generator, generator.choice(KINDS))


def all_mail(seed: int) -> Iterator[DemoMail]:
    """Yield messages of all kinds, newsletters among them, without an end."""
    generator = random.Random(f"all {seed}")  # noqa: S311 - no secret
    while True:
        is_newsletter = generator.random() < NEWSLETTER_SHARE
        yield _write(generator, NEWSLETTER if is_newsletter else generator.choice(KINDS))


def _write(generator: random.Random, kind: Kind) -> DemoMail:
    name, address = generator.choice(kind.senders)
    subject = generator.choice(kind.subjects).replace("{}", generator.choice(kind.words))
    sentences = generator.sample(kind.sentences, k=min(3, len(kind.sentences)))
    text = [sentence.replace("{}", generator.choice(kind.words)) for sentence in sentences]
    domain = address.partition("@")[2]
    message = EmailMessage()
    message["Received"] = f"from mail.{domain} (mail.{domain} [203.0.113.{generator.randint(1, 254)}])"
    message["Message-ID"] = f"<{generator.randrange(1 << 60):x}@{domain}>"
    message["From"] = formataddr((name, address))
    message["To"] = RECIPIENT
    message["Subject"] = subject
    if kind is LIST:
        message["List-Id"] = "<gardeners.lists.example>"
    message.set_content("\n".join(text) + "\n")
    if kind.is_html:
        link = f'<a href="https://www.{domain}/{generator.randrange(10_000)}">click here</a>'
        paragraphs = "".join(f"<p>{sentence}</p>" for sentence in text)
        message.add_alternative(f"<html><body>{paragraphs}{link}</body></html>", subtype="html")
        message.set_boundary(f"part-{generator.randrange(1 << 60):x}")
    return DemoMail(kind.label, name, address, subject, message.as_bytes())
