"""The ids in the text of a mail."""

from __future__ import annotations

import textwrap
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.policy.header import own_field_value, parse_own_id
from nbstream.policy.settings import OWN_FIELD
from nbstream.policy.thresholds import BudgetGuarantee
from nbstream.policy.verdict import ModelState, Thresholds, Verdict, decide_verdict
from nbstream.server.feedback_mailbox import quoted_ids

ID, OTHER = "abcdefghijklmnopqrstuvwx", "234567abcdefghijklmnopqr"
VALUE = own_field_value(ID, Verdict.HAM, 0.2, "probability < 0.5 (unsure)", "default")
FIELD = f"X-Nbstream: {VALUE}"


def ids(text: str, kind: str = "plain", disposition: str | None = None) -> set[str]:
    mail = EmailMessage()
    mail["Subject"] = "Fwd: x"
    mail.set_content(text, subtype=kind, cte="quoted-printable")
    if disposition:
        mail["Content-Disposition"] = disposition
    return set(quoted_ids(Message.parse(mail.as_bytes()), OWN_FIELD))


def test_a_quoted_field_is_found() -> None:
    assert ids(f"See below.\n\n-------- Forwarded Message --------\nSubject: x\n{FIELD}\n\nHello\n") == {ID}


@pytest.mark.parametrize("quote", ["> ", ">>> ", "| ", "  > | "])
@pytest.mark.parametrize("width", [30, 45, 70])
def test_any_way_of_quoting_and_wrapping_is_read(quote: str, width: int) -> None:
    wrapped = textwrap.wrap(" ".join(FIELD.split()), width, break_long_words=False, break_on_hyphens=False)

    assert ids("\n".join(quote + line for line in ["Subject: x", *wrapped, "", "Hello"])) == {ID}


@given(st.floats(0, 1), st.sampled_from([(0, 0), (300, 300)]), st.text("abz09._-", min_size=1, max_size=60))
def test_the_field_of_any_verdict_is_read(probability: float, learned: tuple[int, int], model: str) -> None:
    thresholds = Thresholds(reject=0.99)
    state = ModelState({"ham": learned[0], "spam": learned[1]}, {"ham": 200, "spam": 200})
    verdict, reason = decide_verdict(probability, thresholds, state)
    value = own_field_value(ID, verdict, probability, reason, model)
    message = Message.parse(f"Subject: Fwd\n\n> X-Own: {value}\n".replace("\r\n", "\n").encode())

    assert quoted_ids(message, "X-Own") == {ID}
    assert quoted_ids(message, OWN_FIELD) == set()
    assert parse_own_id(value) == ID


def test_in_html_the_visible_text_is_read() -> None:
    value = " ".join(VALUE.split()).replace("<", "&lt;").replace('"', "&quot;")
    shown = f"<html><table><tr><th><b>X-Nbstream: </b></th><td>{value}</td></tr></table></html>"

    assert ids(shown, "html") == {ID}
    assert ids(f"<html><!-- {FIELD} --><p>hello</p></html>", "html") == set()


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        f"id={ID}",
        f"model=default; id={ID}",
        f"X-Nbstream: ham; id={ID}",
        FIELD.replace(ID, ID[:-1]),
        FIELD.replace(ID, ID + "a"),
        FIELD.replace(ID, ID[:-1] + "8"),
        "X-Nbstream: " + "x" * 400 + FIELD.removeprefix("X-Nbstream:"),
    ],
)
def test_nothing_else_is_taken_for_an_id(text: str) -> None:
    assert ids(text) == set()


def test_a_field_that_is_cut_off_borrows_no_id_from_the_next_one() -> None:
    assert ids(f"X-Nbstream: ham; probability=0.2\nSubject: model=default; id={ID}\n") == set()


@given(
    st.floats(0, 1),
    st.lists(
        st.builds(
            BudgetGuarantee,
            st.floats(1e-9, 0.5),
            st.floats(0.1, 1) | st.none(),
            st.integers(0, 10**7),
        ),
        min_size=1,
        max_size=2,
    ),
    st.text("abz@*._-", max_size=60),
)
def test_the_field_is_read_with_any_guarantee_and_policy(
    probability: float, guarantees: list[BudgetGuarantee], policy: str
) -> None:
    thresholds = Thresholds(0.123456, 0.9999987654, guarantee="; ".join(map(str, guarantees)))
    verdict, reason = decide_verdict(probability, thresholds, ModelState({}))
    value = own_field_value(ID, verdict, probability, reason, "default", policy)

    assert ids(f"X-Nbstream: {value}") == {ID}
