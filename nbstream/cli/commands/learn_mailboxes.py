"""``nbstream learn --mailboxes``: teach a site from all its mailboxes, with a plan before and a measure after.

Rules: nothing is learned before somebody has agreed to the plan, and nothing changes in the mailboxes. What people
have said of a message stays: a folder is a weaker word. The messages of the last tenth are checked before they are
learned, so that the command can say how good the model was by then.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING, TypeVar, cast

from nbstream import interrupts
from nbstream.cli import reader_process
from nbstream.cli.lesson_summary import FeedbackSummary
from nbstream.cli.message_files import NamedMessage
from nbstream.correspondents.facts import MAX_MESSAGES, SENDER_SECONDS
from nbstream.correspondents.sent_mail import read_message
from nbstream.correspondents.store import record_sent
from nbstream.daemon import config
from nbstream.daemon.assembly.filter import make_model_tokenizer
from nbstream.daemon.assembly.parts import Parts, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_message_reader, make_own_model_names
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.engine.choice import choose_engine
from nbstream.errors import InputError, StoreIncompatible
from nbstream.filter import FeedbackOutcome, LabelledMessage
from nbstream.mail.message import Message
from nbstream.mail.visible_text import visible_text
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.settings.values import read_text_file
from nbstream.store.model.ledger import LedgerEntry
from nbstream.system_users import acting_as, current_user
from nbstream.terminal import progress
from nbstream.training.choice import SLICES, Skips, make_plan
from nbstream.training.files import MailboxFiles
from nbstream.training.messages import FolderRole, MessagePlace, SkippedMail
from nbstream.training.template import PathTemplate, parse_passwords, parse_users

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.cli.reader_process import MessageChunk
    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.daemon.config import Settings
    from nbstream.errors import NbstreamError
    from nbstream.filter import FeedbackResult
    from nbstream.store.model.model import Model
    from nbstream.terminal import Output
    from nbstream.training.choice import Plan
    from nbstream.training.messages import Account, MailboxMessage, MailSource

SOURCE = "mailboxes"
"""The source of these lessons: the history and ``nbstream undo --source`` know them by it."""

_MAX_LIST_BYTES = 16 << 20
_BATCH = 256  # of the ledger, which is asked for what is known of a message
_MAX_SENT_MESSAGES = 20_000  # of an account
_MAX_SENT_SHARE = 0.1  # of all that can be known of senders, so that no account takes the place of all others
_MAX_SENT_BYTES = 1 << 18  # the recipients of what has large attachments get other messages, too
_Parsed = TypeVar("_Parsed")
_NO_MAIL = "is no message"


def run(options: argparse.Namespace, output: Output) -> None:
    """Print the plan; learn, if somebody agrees, and print what became of it. Return the exit code.

    It is 66 for a list of users that cannot be read and where no account was found, 75 when Redis is away.
    """
    if not options.plan and not options.yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        options.wrong_usage("without a terminal give --plan, which learns nothing, or --yes")
    settings = config.load_settings(config.find_config_file(options.config))
    source = _mail_source(options, settings)
    with interrupts.interrupt_at_once(), progress(" accounts", None) as advance:
        plan = make_plan(source, options.per_account, advance)
    output.show([visible_text(line) for line in plan.lines()])
    if not plan.accounts:
        raise InputError("--mailboxes: no account was found")
    if options.plan or not plan.chosen or not (options.yes or _is_agreed(output)):
        return
    owner = _owner(settings)
    with acting_as(owner):
        facts = interrupts.run_interruptible(_record_sent(settings, source, plan.skips, owner, output))
        engine = choose_engine()
        tokenizer = make_model_tokenizer(settings, engine, (lambda: facts) if facts else None)
    with (
        reader_process.in_own_process(
            reader_process.read_chunks(_reader(source, plan), tokenizer, make_message_reader(settings))
        ) as chunks,
        acting_as(owner),
    ):
        interrupts.run_interruptible(_learn(settings, plan, chunks, output))


def _owner(settings: Settings) -> int | None:
    """Return who owns ``state_dir``, where root runs this: what root made there the daemon could not open.

    Mailboxes are read as root, and what is learned of them is stored as the user of the daemon.
    """
    state = settings.state_dir
    return state.stat().st_uid if os.geteuid() == 0 and state.exists() else None


def _mail_source(options: argparse.Namespace, settings: Settings) -> MailSource:
    """Return where the mailboxes are, by the template and the list of users. Raises ``InputError``."""
    # A trial files nothing into Junk: whatever its field says, somebody else has put a message there.
    own_field = None if settings.headers.mode == "observe" else settings.headers.own_field
    if isinstance(options.mailboxes, PathTemplate):
        return MailboxFiles(options.mailboxes, _read_users(options.users) if options.users else None, own_field)
    if not options.users:
        options.wrong_usage("--users FILE is needed with a URL: the server does not list its accounts")
    from nbstream.training.imap import ImapMailboxes  # noqa: PLC0415 - TLS takes a tenth of the time to start

    users = _read_users(options.users)
    if options.password_file:
        passwords = _parsed(options.password_file, lambda text: parse_passwords(text, users))
    elif sys.stdin.isatty():
        passwords = dict.fromkeys(users, getpass.getpass("Password of all these accounts: "))
    else:
        options.wrong_usage("without a terminal --password-file is needed")
    return ImapMailboxes(options.mailboxes, users, passwords, options.ca_file, own_field)


def _read_users(file: Path) -> Sequence[str]:
    return _parsed(file, lambda text: parse_users(text.splitlines()))


def _parsed(file: Path, parse: Callable[[str], _Parsed]) -> _Parsed:
    try:
        return parse(read_text_file(file.absolute(), _MAX_LIST_BYTES))
    except ValueError as error:
        raise InputError(f"{file}: {error}") from error


def _is_agreed(output: Output) -> bool:
    """Ask whether the plan is to be learned."""
    output.show("Learn this? [y]es or [n]o:")
    return sys.stdin.readline().strip().lower().startswith("y")


async def _record_sent(
    settings: Settings, source: MailSource, skips: Skips, owner: int | None, output: Output
) -> CorrespondentFacts | None:
    """Record whom the users wrote to, by their folders for sent mail, and return all that is known of it.

    None is returned where ``correspondents`` is off. Raises ``ConfigError`` or ``StoreUnavailable``.
    """
    async with open_running_redis(settings) as clients:
        store = Parts(settings, clients).correspondent_store
        if store is None:
            return None
        (facts, _), names = await store.load(), make_own_model_names(settings)
        read = recorded = 0
        since = time.time() - SENDER_SECONDS
        reader = None if owner is None else 0
        with acting_as(reader):
            accounts = list(source.accounts(skips.add))
        for account in accounts:
            with acting_as(reader):
                places = _sent_places(source, account, since, skips)
            user, room = names.user_of(account.user), int(_MAX_SENT_SHARE * MAX_MESSAGES)
            for start in range(0, len(places), _BATCH):
                with acting_as(reader):
                    sent = source.read(places[start : start + _BATCH], skips.add)
                    mails = [read_message(Message.parse(raw), user) for _, raw in sent]
                said = [mail for mail in mails if mail and (room := room - len(mail.recipients)) >= 0]
                recorded += await record_sent(store, facts, said)
                read += len(mails)
    if read:
        days = SENDER_SECONDS // 86_400
        output.show(
            f"whom users wrote to: {recorded} of {read} sent messages of the last {days} days say something new"
        )
    return facts


def _sent_places(source: MailSource, account: Account, since: float, skips: Skips) -> Sequence[MessagePlace]:
    """Return where the messages are that a user has sent since then, without very long ones."""
    with closing(cast("Generator[MailboxMessage]", source.messages(account, skips.add))) as messages:
        sent = takewhile(lambda message: message.folder.role is FolderRole.SENT, messages)
        newer = (message for message in sent if message.arrived >= since and message.size <= _MAX_SENT_BYTES)
        some = islice(newer, _MAX_SENT_MESSAGES)
        return [MessagePlace(account, message.folder, message.locator) for message in some]


def _reader(
    source: MailSource, plan: Plan
) -> Callable[[list[NbstreamError]], Iterator[tuple[NamedMessage, str | None]]]:
    """Return what reads all messages of the plan; the name of each is the number of its slice."""

    def read_all(errors: list[NbstreamError]) -> Iterator[tuple[NamedMessage, str | None]]:
        for number, places in enumerate(plan.slices(), start=1):
            for place, raw in source.read(places, errors.append):
                yield NamedMessage(str(number), raw), place.label

    return read_all


async def _learn(
    settings: Settings, plan: Plan, chunks: AsyncGenerator[MessageChunk, None], output: Output
) -> None:
    results, skips = Results(FeedbackSummary(output.errors, "all")), Skips()  # the plan has said what it left out
    interrupted = "; the same command goes on"
    is_checked = deque[bool]()
    try:
        with progress(" messages", len(plan.chosen)) as advance:

            def add(lesson: FeedbackResult | StoreIncompatible) -> None:
                results.add(lesson, is_checked=is_checked.popleft())
                advance(1)

            async def messages(model: Model) -> AsyncGenerator[LabelledMessage, None]:
                async for chunk in chunks:
                    for error in chunk.errors:
                        skips.add(error if isinstance(error, SkippedMail) else SkippedMail("a message", _NO_MAIL))
                    entries = await model.entries([message.tokenized.key for message in chunk.messages])
                    for message, entry in zip(chunk.messages, entries, strict=True):
                        is_same = isinstance(entry, LedgerEntry) and entry.label == message.label
                        if is_same or (isinstance(entry, LedgerEntry) and entry.source != SOURCE):
                            results.known[is_same] += 1
                            advance(1)
                        else:
                            is_checked.append(int(message.name) == SLICES)
                            yield LabelledMessage(message.tokenized, message.label)

            async with (
                aclosing(chunks),
                open_one_shot_filter(settings, sign=True) as (spam_filter, model),
                aclosing(messages(model)) as labelled,
            ):
                await spam_filter.learn_many(labelled, FeedbackSource(SOURCE, current_user()), add)
        interrupted = ""
    finally:
        output.show(results.summary.describe() + interrupted)
        measure = () if interrupted else results.lines()
        for line in (*measure, *(f"skipped: {line}" for line in skips.lines())):
            output.show(visible_text(line))
        output.print_errors()


@dataclass(slots=True)
class Results:
    """What became of the messages, and how the model judged those that it had not yet learned.

    ``known`` counts messages that were learned before (True), and those that people have called the opposite.
    ``checked`` counts the checked messages of each class, and ``wrong`` those of them that the model got wrong.
    """

    summary: FeedbackSummary
    known: Counter[bool] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, lesson: FeedbackResult | StoreIncompatible, *, is_checked: bool) -> None:
        """Count one more lesson; ``is_checked``: its check before the lesson is one of the measure."""
        self.summary.add(lesson)
        if isinstance(lesson, StoreIncompatible) or lesson.outcome is not FeedbackOutcome.LEARNED:
            return
        if is_checked and lesson.label and not lesson.before.state.is_learning:
            self.checked[lesson.label] += 1
            self.wrong[lesson.label] += lesson.before.verdict.is_spam != (lesson.label == "spam")

    def lines(self) -> Iterator[str]:
        """Yield what became of messages that are no lesson, and the measure."""
        if self.known[True]:
            yield f"learned before: {self.known[True]}"
        if self.known[False]:
            yield f"left as somebody has labelled them, whatever folder they lie in: {self.known[False]}"
        if not self.checked:
            yield "nothing of the newest tenth was measured: it was learned before, or the model knew too little"
            return
        rates = [
            f"{name} {_rate(self.wrong[label], self.checked[label])}"
            for label, name in (("ham", "ham lost"), ("spam", "spam missed"))
        ]
        yield f"of the newest tenth, each checked before it was learned: {', '.join(rates)}"


def _rate(wrong: int, count: int) -> str:
    return f"{wrong} of {count} ({wrong / count:.1%})" if count else "unknown, there was none"
