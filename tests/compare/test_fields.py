"""What another filter says is read from the fields that it writes, of that filter alone, and never learned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.compare.fields import FilterVerdict, OtherFilter, OtherVerdict
from nbstream.compare.settings import FilterName
from nbstream.mail.message import Message
from nbstream.tokens.tokenizer import Tokenizer

AMAVIS = (
    "X-Spam-Flag: YES\r\nX-Spam-Score: 8.125\r\nX-Spam-Level: ********\r\nX-Spam-Status: Yes, score=8.125 "
    "tagged_above=2 required=6.31\r\n\ttests=[BAYES_99=3.5] autolearn=no\r\n"
)
EXTENDED = "X-Spamd-Result: default: False [{score} / 15.00];\r\n\tMIME_GOOD(-0.10)[text/plain]\r\n"
CASES: list[tuple[FilterName, str, OtherVerdict | None]] = [
    (
        "spamassassin",
        "X-Spam-Status: No, score=-1.9 required=5.0 tests=A\r\n",
        OtherVerdict(FilterVerdict.HAM, -1.9),
    ),
    ("spamassassin", "X-Spam-Status: Yes, hits=7 required=5.0\r\n", OtherVerdict(FilterVerdict.SPAM, 7.0)),
    ("spamassassin", "X-Spam-Flag: YES\r\n", OtherVerdict(FilterVerdict.SPAM)),
    ("spamassassin", AMAVIS, OtherVerdict(FilterVerdict.SPAM, 8.125)),
    ("spamassassin", "X-Spam-Level: *****\r\nX-Spam-Score: 5.1\r\n", None),  # it depends on what is required
    (
        "spamassassin",
        "X-Spam-Status: Yes, score=7\r\nX-Spam-Flag: NO\r\n",
        OtherVerdict(FilterVerdict.UNCLEAR, 7.0),
    ),
    ("rspamd", EXTENDED.format(score="-0.10"), OtherVerdict(FilterVerdict.HAM, -0.1)),
    (
        "rspamd",
        "X-Spam: Yes\r\n" + EXTENDED.format(score="7.00") + "X-Rspamd-Action: add header\r\n",
        OtherVerdict(FilterVerdict.SPAM, 7.0),
    ),
    ("rspamd", "X-Spamd-Result: default: True [20.00 / 15.00]\r\n", OtherVerdict(FilterVerdict.SPAM, 20.0)),
    (
        "rspamd",
        EXTENDED.format(score="5.00") + "X-Rspamd-Action: greylist\r\n",
        OtherVerdict(FilterVerdict.HAM, 5.0),
    ),
    ("rspamd", "X-Rspamd-Server: mx\r\n", None),
    ("rspamd", "X-Spam-Status: No, score=1.00\r\n", OtherVerdict(FilterVerdict.HAM, 1.0)),
    ("rspamd", "X-Spam-Status: No, score=-5\r\nX-Spam: Yes\r\n", OtherVerdict(FilterVerdict.SPAM)),  # of a sender
    (
        "bogofilter",
        "X-Bogosity: Spam, tests=bogofilter, spamicity=0.999\r\n",
        OtherVerdict(FilterVerdict.SPAM, 0.999),
    ),
    ("bogofilter", "X-Bogosity: No, tests=bogofilter, spamicity=0\r\n", OtherVerdict(FilterVerdict.HAM, 0.0)),
    (
        "bogofilter",
        "X-Bogosity: Unsure, tests=bogofilter, spamicity=0.5\r\n",
        OtherVerdict(FilterVerdict.UNSURE, 0.5),
    ),
    ("bogofilter", "X-Bogosity: Ham\r\nX-Bogosity: Spam\r\n", OtherVerdict(FilterVerdict.UNCLEAR)),
    ("spambayes", "X-Spambayes-Classification: unsure; 0.50\r\n", OtherVerdict(FilterVerdict.UNSURE, 0.5)),
    ("dspam", "X-DSPAM-Result: Innocent\r\n", OtherVerdict(FilterVerdict.HAM)),
]


@pytest.mark.parametrize(("name", "fields", "verdict"), CASES)
def test_the_verdict_is_read(name: FilterName, fields: str, verdict: OtherVerdict | None) -> None:
    head = f"Received: a\r\n{fields}Subject: hello\r\n\r\nX-Spam-Flag: YES\r\n".encode()
    assert OtherFilter(name).read(head) == verdict
    assert OtherVerdict.unpack(OtherFilter(name).read_packed(head)) == verdict


@pytest.mark.parametrize("name", ["rspamd", "bogofilter", "spambayes", "dspam"])
def test_the_fields_of_another_filter_than_the_named_one_are_not_read(name: FilterName) -> None:
    """Whoever sends a message may write them."""
    others = "".join(fields for other, fields, _ in CASES if other not in (name, "spamassassin", "rspamd"))
    assert OtherFilter(name).read(f"{others}Subject: hello\r\n\r\n".encode()) is None


def test_a_message_without_a_field_says_nothing_or_is_ham() -> None:
    assert OtherFilter("rspamd").read(b"Subject: hello\r\n\r\n") is None
    assert OtherFilter("rspamd", unmarked_is_ham=True).read(b"Subject: hello\r\n\r\n") == OtherVerdict(
        FilterVerdict.HAM
    )
    marked = OtherFilter("rspamd", unmarked_is_ham=True).read(b"X-Spam: Yes\r\n\r\n")
    assert marked == OtherVerdict(FilterVerdict.SPAM)
    assert OtherFilter("rspamd", unmarked_is_ham=True).read(b"") is None  # a text that is no mail


@given(
    st.sampled_from(["spamassassin", "rspamd", "bogofilter", "spambayes", "dspam"]),
    st.lists(
        st.tuples(
            st.sampled_from(["X-Spam-Status", "X-Spamd-Result", "X-Spam-Score", "X-Bogosity", "X-DSPAM-Result"]),
            st.binary()
            | st.sampled_from([b"Yes, score=1e999", b"Yes, score=" + b"9" * 500, b"default: True [nan"]),
        )
    ),
)
def test_whatever_the_fields_contain_a_verdict_is_one_short_line(
    name: FilterName, fields: list[tuple[str, bytes]]
) -> None:
    head = b"".join(field.encode() + b": " + value + b"\r\n" for field, value in fields)
    packed = OtherFilter(name).read_packed(head)
    assert len(packed) <= 40
    assert packed.isascii()
    assert "\n" not in packed
    assert bool(OtherVerdict.unpack(packed)) is bool(packed)


@pytest.mark.parametrize("packed", ["", "maybe", "spam x", "spam 1 2", "\n"])
def test_what_no_verdict_was_packed_as_is_no_verdict(packed: str) -> None:
    assert OtherVerdict.unpack(packed) is None


@pytest.mark.parametrize("fields", [fields for _, fields, _ in CASES])
def test_verdicts_of_other_filters_are_no_tokens_and_change_no_id(fields: str) -> None:
    """They would give the label away."""
    plain = Message.parse(b"Received: a\r\nSubject: hello\r\n\r\nlunch on Friday\r\n")
    judged = Message.parse(f"Received: a\r\n{fields}Subject: hello\r\n\r\nlunch on Friday\r\n".encode())
    tokenizer = Tokenizer()
    assert tokenizer.take_apart(judged).tokens.all == tokenizer.take_apart(plain).tokens.all
    assert judged.key == plain.key
