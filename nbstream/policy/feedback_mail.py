"""What a piece of feedback mail means: some messages, or one that was checked and is known by its id.

In this order:

1. What it carries: attached messages; of an abuse report without a message, the id in the header that it carries.
   A report's own type must agree with the label. Not what a redirected mail has attached, for that its sender has
   chosen; but a report, or a mail that had been written to us, carries what it did when it is redirected.
2. A redirected mail, or one with our own verdict field in its header that was not written to us, is itself the
   message: it went through here and came back as it was.
3. The one id that its text quotes.
4. A mail that was written to the feedback address carries nothing to learn then, and is refused. Learned as
   itself it would teach that its writer, with his address and mail program, is spam.
5. Else it is itself the message, as a script or ``sendmail`` sends it.

An id in a text is as trustworthy as who wrote that text: a spammer who knows all of another message to the same
reader, from a mailing list, could quote that one's id. Where the reader's program quotes the true field too there
are two, and that is refused; a message forwarded as an attachment is safe in any case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nbstream.errors import FeedbackRefused, FeedbackTooLarge
from nbstream.mail import forwards
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.quoted_ids import quoted_ids
from nbstream.policy.verdict_fields import OWN_FIELD, parse_own_id

MAX_MESSAGES = 1000
"""So many messages may be attached to one feedback mail."""

_LABEL_BY_REPORT_TYPE = {
    "abuse": "spam",
    "fraud": "spam",
    "virus": "spam",
    "not-spam": "ham",
}  # RFC 5965 7.3, RFC 6430
_ATTACH_ADVICE = "please forward it as an attachment"


@dataclass(frozen=True, slots=True)
class FeedbackContent:
    """Raw messages (CRLF line ends), or the id of one that was checked."""

    messages: tuple[bytes, ...] = ()
    id: str | None = None


def parse_feedback_mail(
    content: bytes, label: str, addresses: Collection[str], limits: MessageLimits
) -> FeedbackContent:
    """What ``content`` (CRLF line ends), sent to the address of ``label``, means.

    ``addresses`` are the feedback addresses in lower case. Raises ``FeedbackRefused``.
    """
    if not content.strip():
        raise FeedbackRefused("This mail is empty, there is nothing to learn from")
    carried = forwards.parse_forwarded_content(content, MAX_MESSAGES)
    if carried is None:
        raise FeedbackTooLarge(f"More than {MAX_MESSAGES} messages attached, please send fewer at a time")
    _require_matching_label(carried.feedback_type, label)
    written = forwards.is_addressed_to(content, addresses)
    if carried.messages and (carried.feedback_type is not None or written or not forwards.is_redirected(content)):
        if not all(map(bytes.strip, carried.messages)):
            raise FeedbackRefused("An attached message is empty, there is nothing to learn from")
        return FeedbackContent(carried.messages)
    if carried.feedback_type is not None:
        return FeedbackContent(id=_reported_id(carried.headers_only, limits))
    return _content_without_attachment(Message(content, limits), written=written)


def _require_matching_label(feedback_type: str | None, label: str) -> None:
    claimed = _LABEL_BY_REPORT_TYPE.get(feedback_type or "", label)
    if claimed != label:
        raise FeedbackRefused(
            f"This report says {feedback_type}, but this address learns {label}: send it to the one for {claimed}"
        )


def _reported_id(heads: tuple[bytes, ...], limits: MessageLimits) -> str:
    found = _single_id(set().union(*(_own_ids(Message(head, limits)) for head in heads)))
    if found is None:
        missing = f"neither a message nor the {OWN_FIELD} field of one" if heads else "no message"
        raise FeedbackRefused(f"This report carries {missing} to learn from")
    return found


def _content_without_attachment(mail: Message, *, written: bool) -> FeedbackContent:
    if forwards.is_redirected(mail.raw) or (_own_ids(mail) and not written):
        return FeedbackContent((mail.raw,))
    found = _single_id(quoted_ids(mail))
    if found is not None:
        return FeedbackContent(id=found)
    if written:
        raise FeedbackRefused(
            f"This mail neither attaches a message nor quotes its {OWN_FIELD} field; "
            f"to teach one, {_ATTACH_ADVICE}"
        )
    return FeedbackContent((mail.raw,))


def _single_id(ids: Collection[str]) -> str | None:
    """The id, where there is one."""
    if len(ids) > 1:
        raise FeedbackRefused(
            f"This mail quotes the ids of {len(ids)} messages, instead of the one that is meant; {_ATTACH_ADVICE}"
        )
    return next(iter(ids), None)


def _own_ids(message: Message) -> set[str]:
    own = (parse_own_id(each.text) for each in message.fields if each.name == OWN_FIELD.lower())
    return {each for each in own if each is not None}
