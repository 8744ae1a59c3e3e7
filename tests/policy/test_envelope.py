"""The envelope of a message is bounded, whatever it says, and its subject is that of the message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.policy.envelope import (
    MAX_ADDRESS_LENGTH,
    MAX_FIELD_LENGTH,
    MAX_HEAD_BYTES,
    MAX_RECIPIENTS,
    RememberedEnvelope,
    envelope_builder,
)


def subject_of(raw: bytes) -> str | None:
    return envelope_builder("smtp", None, (), Message.parse(raw))().subject


def test_the_subject_is_decoded_and_unfolded() -> None:
    assert (
        subject_of(b"From: a@x\nsubject: =?utf-8?q?caf=C3=A9?=\n =?utf-8?q?_au_lait?=\n\nbody\n") == "café au lait"
    )
    assert subject_of(b"From: a@x\nSubject:\n\n") == ""


def test_of_the_first_bytes_alone_the_subject_is_read() -> None:
    field = b"X: " + b"y" * 70 + b"\n"
    assert subject_of(field * 10 + b"Subject: near\n\n") == "near"
    assert subject_of(field * (MAX_HEAD_BYTES // len(field) + 1) + b"Subject: far\n\n") is None


@given(st.binary(), st.integers(1, 3000))
def test_any_subject_is_read_and_bounded(value: bytes, times: int) -> None:
    subject = subject_of(b"Subject: " + value * times + b"\r\n\r\n")

    assert subject is None or len(subject) <= MAX_FIELD_LENGTH


@given(st.none() | st.text(), st.lists(st.text(), max_size=30), st.integers(1, 400))
def test_addresses_are_cut_and_the_first_recipients_are_kept(
    sender: str | None, recipients: list[str], times: int
) -> None:
    many = [recipient * times for recipient in recipients]
    addresses = envelope_builder("smtp", sender and sender * times, many, Message(b""))()

    assert addresses.recipient_count == len(recipients)
    assert len(addresses.recipients) == min(len(recipients), MAX_RECIPIENTS)
    assert (addresses.sender is None) == (sender is None)
    kept = [addresses.sender or "", *addresses.recipients]
    given_texts = [(sender or "") * times, *(recipient * times for recipient in recipients)]
    assert all(len(text) <= MAX_ADDRESS_LENGTH for text in kept)
    assert all(whole.startswith(text) for whole, text in zip(given_texts, kept, strict=False))


def test_an_envelope_has_what_is_known() -> None:
    message = Message(b"Subject: hi\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@x.example>\r\n\r\n")

    assert envelope_builder("smtp", "", ["ann@x.example"], message, "pass")() == RememberedEnvelope(
        "smtp", "", ("ann@x.example",), 1, "hi", "pass", "Zo\u00eb <zoe@x.example>"
    )
