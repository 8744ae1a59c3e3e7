"""``nbstream quarantine``: see what waits there, and release it.

Rules: nothing of a message reaches the terminal but printable characters. A release that was interrupted before
the message was delivered is mended by the same command again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import make_next_hop, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_header_policy, make_message_reader
from nbstream.delivery import quarantine
from nbstream.delivery.quarantine import Quarantine
from nbstream.errors import InputError, ReleaseInDoubt
from nbstream.filter import describe_lesson
from nbstream.policy.feedback_source import COMMAND_SOURCE
from nbstream.policy.verdict import shorten_probability
from nbstream.server.api_json import iso_time
from nbstream.server.quarantine_release import IN_DOUBT_TEXT, QuarantineReleaser, shown_text
from nbstream.store.recent.message_rows import OutcomeKind, QuarantineOutcomes
from nbstream.system_users import current_user
from nbstream.terminal import local_time

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.delivery.quarantine import QuarantineFile, QuarantineNote
    from nbstream.mail.message import Message
    from nbstream.terminal import Output

_MAX_SHOWN_LENGTH = 100


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print or release messages; 66 for an unknown id, 69 if the next hop refuses, 75 if it or Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    waiting = Quarantine(settings.quarantine_folder)
    if options.action == "list":
        _list_messages(waiting, output)
    elif options.action == "show":
        _show_message(settings, waiting, options.id, output)
    else:
        await _release_messages(settings, waiting, options, output)


def _list_messages(waiting: Quarantine, output: Output) -> None:
    for entry in waiting.messages():
        try:
            note, texts = quarantine.read_header_texts(entry, ("subject",))
        except InputError as error:
            output.fail(error)
        else:
            output.show(_describe(entry, note, texts["subject"]), _members(entry, note, texts["subject"]))


def _members(entry: QuarantineFile, note: QuarantineNote, subject: str) -> dict[str, object]:
    return {
        "id": note.id,
        "time": iso_time(entry.at),
        "verdict": note.verdict,
        "probability": note.probability,
        "policy": note.policy or None,
        "sender": note.envelope.sender.address,
        "recipients": [recipient.address for recipient in note.envelope.recipients],
        "subject": subject,
        "in_doubt": entry.in_doubt,
    }


def _describe(entry: QuarantineFile, note: QuarantineNote, subject: str) -> str:
    first, *others = note.envelope.recipients
    more = f" and {len(others)} more" if others else ""
    doubt = f"  ({IN_DOUBT_TEXT})" if entry.in_doubt else ""
    verdict_text = f"{note.verdict} {shorten_probability(note.probability, 4)}"
    way = f"{note.envelope.sender.address or '<>'} -> {first.address}{more}"
    return f"{local_time(entry.at)}  {note.id}  {verdict_text}  {way}  {subject[:_MAX_SHOWN_LENGTH]}{doubt}"


def _show_message(settings: Settings, waiting: Quarantine, prefix: str, output: Output) -> None:
    for entry in _messages_by_prefix(waiting, prefix):
        note, content = quarantine.read_message(entry)
        message = make_message_reader(settings).read_incoming(content)
        for line in _message_lines(entry, note, message):
            output.show(line.expandtabs())


def _message_lines(entry: QuarantineFile, note: QuarantineNote, message: Message) -> Iterator[str]:
    yield f"id         {note.id}"
    yield f"since      {local_time(entry.at)}"
    if entry.in_doubt:
        yield f"           {IN_DOUBT_TEXT}"
    yield f"verdict    {note.verdict}, probability {note.probability:.6f}"
    if note.policy:
        yield f"policy     {note.policy}"
    yield f"sender     {note.envelope.sender.address or '<>'}"
    for recipient in note.envelope.recipients:
        yield f"recipient  {recipient.address}"
    yield ""
    shown = shown_text(message)
    for name, text in shown.fields:
        yield f"{name}: {text}"
    yield ""
    for text in shown.parts:
        yield from text.splitlines()
    if shown.is_cut:
        yield "... (the rest is not shown)"


def _messages_by_prefix(waiting: Quarantine, prefix: str) -> list[QuarantineFile]:
    """Return the files of the one message whose id begins so: several where it came several times."""
    messages = waiting.messages(prefix)
    ids = sorted({message.id for message in messages})
    if not ids:
        raise InputError("no such message in the quarantine")
    if len(ids) > 1:
        raise InputError(f"{len(ids)} messages have an id that begins so, {ids[0]} and {ids[1]} among them")
    return messages


async def _release_messages(
    settings: Settings, waiting: Quarantine, options: argparse.Namespace, output: Output
) -> None:
    next_hop = make_next_hop(settings)
    try:
        async with open_one_shot_filter(settings, sign=True, reads_messages=True) as (spam_filter, model):
            learn_ham = partial(spam_filter.learn, label="ham", source=COMMAND_SOURCE, actor=current_user())
            outcomes = QuarantineOutcomes(model.client, model.keys)
            releaser = QuarantineReleaser(
                learn_ham, make_message_reader(settings), make_header_policy(settings), next_hop
            )
            for prefix in options.ids:
                try:
                    entries = _messages_by_prefix(waiting, prefix)
                except InputError as error:
                    output.fail(error, f"{prefix}: not released: {error}")
                    continue
                released = 0
                for entry in entries:
                    lessons, failure = await releaser.release([entry], again=options.again)
                    taught = describe_lesson(lessons[0]) if lessons else ""
                    if failure:
                        is_in_doubt = isinstance(failure, ReleaseInDoubt)
                        advice = "; to deliver it all the same, --again" if is_in_doubt else ""
                        aside = f"; taught as ham all the same: {taught}" if taught else advice
                        output.fail(failure, f"{entry.id}: not released: {failure}{aside}")
                    else:
                        released += 1
                        output.show(f"{entry.id} released; {taught}")
                if released == len(entries):  # none of its files waits any more
                    await outcomes.note(entries[0].id, OutcomeKind.RELEASED, current_user())
    finally:
        await next_hop.close()
