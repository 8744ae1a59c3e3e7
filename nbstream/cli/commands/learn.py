"""``nbstream learn`` and ``nbstream unlearn``: teach from files, IMAP folders or by id, and take it back."""

from __future__ import annotations

import argparse
import getpass
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import chain, repeat, starmap, zip_longest
from typing import TYPE_CHECKING

from nbstream import interrupts
from nbstream.cli import message_files, reader_process
from nbstream.cli.lesson_summary import FeedbackSummary
from nbstream.cli.message_files import NamedMessage
from nbstream.daemon import config
from nbstream.daemon.assembly.filter import make_model_tokenizer
from nbstream.daemon.assembly.parts import open_one_shot_filter, read_correspondents
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.engine.choice import choose_engine
from nbstream.errors import ConfigError, NbstreamError, StoreIncompatible
from nbstream.filter import LabelledMessage
from nbstream.policy.feedback_source import COMMAND_SOURCE, FeedbackSource, Reinforcement
from nbstream.settings.values import read_secret_file
from nbstream.system_users import current_user
from nbstream.terminal import print_error, progress

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.cli.reader_process import MessageChunk, MessageSource, ReadMessage
    from nbstream.daemon.config import Settings
    from nbstream.filter import FeedbackResult, Filter
    from nbstream.server.imap import ImapAccount
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.terminal import Output


def run(options: argparse.Namespace, output: Output) -> None:
    """Learn or unlearn, print what changed, and return the exit code.

    It is 0 also where nothing had to change, 66 for unreadable paths, lists of messages and unknown ids, 75 when
    Redis is away, and 78 where this program cannot read what the ledger holds of a message. The rest is learned.
    """
    if options.mailboxes:
        of_class = (options.label, options.paths, options.ids, options.folders, options.others)
        if any((*of_class, options.user, options.reinforce)):
            options.wrong_usage(
                "--mailboxes goes without CLASS, PATH, --id, --imap, --and, --user and --reinforce"
            )
        from nbstream.cli.commands import learn_mailboxes  # noqa: PLC0415 - only this option needs it

        learn_mailboxes.run(options, output)
        return
    if options.command == "learn" and options.label is None:
        options.wrong_usage("a CLASS is needed")
    if not options.paths and not options.ids and not options.folders:
        options.wrong_usage(f"a PATH{', --imap URL' if options.label else ''} or --id ID is needed")
    if any(len(words) == 1 for words in options.others):
        options.wrong_usage("a PATH is needed after the CLASS of --and")
    if [*options.paths, *chain.from_iterable(options.others)].count(message_files.STANDARD_INPUT) > 1:
        options.wrong_usage("standard input (-) can be given once")
    if options.label and not options.folders and (options.password_file or options.ca_file):
        options.wrong_usage("--password-file and --ca-file are only for --imap")
    settings = config.load_settings(config.find_config_file(options.config))
    labels = [label for label in (options.label, *[words[0] for words in options.others]) if label is not None]
    if not set(labels) <= set(settings.model.classes):
        options.wrong_usage(f"CLASS must be one of {', '.join(settings.model.classes)} (model.classes)")
    facts = interrupts.run_interruptible(read_correspondents(settings))
    engine = choose_engine()
    tokenizer = make_model_tokenizer(settings, engine, (lambda: facts) if facts else None)
    with reader_process.in_own_process(
        reader_process.read_chunks(_message_source(options), tokenizer, make_message_reader(settings))
    ) as chunks:
        interrupts.run_interruptible(_learn(options, settings, chunks, output))


def _message_source(options: argparse.Namespace) -> MessageSource:
    """Return what reads all messages that are named, those of several classes in turns.

    The second of two large classes would weigh too much: a lesson weighs as much as the model errs on it.
    """
    read_imap = _imap_reader(options) if options.folders else None

    def read_first(errors: list[NbstreamError]) -> Iterator[NamedMessage]:
        yield from message_files.read_messages(options.paths, errors)
        if read_imap:
            yield from message_files.interruptible(read_imap(errors))

    def read_all(errors: list[NbstreamError]) -> Iterator[tuple[NamedMessage, str | None]]:
        others = [
            zip(message_files.read_messages(paths, errors), repeat(label)) for label, *paths in options.others
        ]
        for turn in zip_longest(zip(read_first(errors), repeat(options.label)), *others):
            yield from filter(None, turn)

    return read_all


def _imap_reader(options: argparse.Namespace) -> Callable[[list[NbstreamError]], Iterator[NamedMessage]]:
    from nbstream.training.imap import read_folders  # noqa: PLC0415 - TLS takes a tenth of the time to start

    folders = list(dict.fromkeys(options.folders))
    passwords = read_passwords([folder.account for folder in folders], options.password_file)
    return lambda errors: starmap(NamedMessage, read_folders(folders, passwords, options.ca_file, errors))


def read_passwords(accounts: Iterable[ImapAccount], password_file: Path | None) -> Mapping[ImapAccount, str]:
    """Return the password of each account; the one in the file is for all of them. Raises ``ConfigError``.

    They are at one server then: none gets to know the password of another one.
    """
    accounts = tuple(dict.fromkeys(accounts))
    if password_file is not None:
        if len(servers := sorted({account.host for account in accounts})) > 1:
            raise ConfigError(f"--password-file is for one server, and these are {', '.join(servers)}")
        try:
            secret = read_secret_file(password_file).secret.get_secret_value()
        except ValueError as error:
            raise ConfigError(f"--password-file {password_file}: {error}") from error
        return dict.fromkeys(accounts, secret)
    if not sys.stdin.isatty():
        raise ConfigError("without a terminal --password-file is needed")
    return {account: getpass.getpass(f"Password of {account}: ") for account in accounts}


async def _learn(
    options: argparse.Namespace,
    settings: Settings,
    chunks: AsyncGenerator[MessageChunk, None],
    output: Output,
) -> None:
    errors = output.errors
    summary, interrupted = FeedbackSummary(errors, options.label), ""
    reinforcement = Reinforcement.AT_ONCE if options.reinforce else Reinforcement.NEVER
    actor = current_user(options.person or options.user)
    source = FeedbackSource(COMMAND_SOURCE, actor, reinforcement)
    bare_texts, first_bare_text = 0, None

    async def subjects(spam_filter: Filter) -> AsyncGenerator[LabelledMessage, None]:
        """Yield what the ids and the paths stand for, in order; what cannot be read is added to ``errors``."""
        nonlocal bare_texts, first_bare_text
        async for checked in _recalled(options.ids, spam_filter, errors):
            yield LabelledMessage(checked, options.label)
        async for chunk in chunks:
            errors.extend(chunk.errors)
            for message in chunk.messages:
                if not message.tokenized.is_mail:
                    bare_texts, first_bare_text = bare_texts + 1, first_bare_text or message
                yield LabelledMessage(message.tokenized, message.label)

    try:
        async with (
            open_one_shot_filter(settings, sign=True, user=options.user) as (spam_filter, _),
            aclosing(chunks),
            aclosing(subjects(spam_filter)) as labelled,
        ):
            interrupted = "; a few more may be, the same command goes on"  # those that Redis has not answered for
            with progress(" messages", None) as advance:

                def add_lesson(lesson: FeedbackResult | StoreIncompatible) -> None:
                    summary.add(lesson)
                    advance(1)

                await spam_filter.learn_many(labelled, source, add_lesson)
            interrupted = ""
    finally:
        output.show(summary.describe() + interrupted)
        failed = len(errors)
        output.print_errors()
        if failed and summary.last:
            print_error(f"{failed} could not be read, the rest was")
        if options.label and first_bare_text and summary.last:
            print_error(_bare_text_warning(options, first_bare_text, bare_texts))


async def _recalled(
    ids: list[str], spam_filter: Filter, errors: list[NbstreamError]
) -> AsyncGenerator[CheckedMessage, None]:
    """Yield the checked messages that have these ids; what is unknown is added to ``errors``."""
    for message_key in ids:
        try:
            checked = await spam_filter.recall(message_key)
        except StoreIncompatible as error:
            errors.append(StoreIncompatible(f"{message_key}: {error}"))
            continue
        if checked:
            yield checked
        else:
            errors.append(message_files.unknown_id_error(message_key))


def _bare_text_warning(options: argparse.Namespace, first: ReadMessage, count: int) -> str:
    """Return what was learned that may be no message, and the command that takes it back."""
    name = "standard input" if first.name == message_files.STANDARD_INPUT else first.name
    unlearn = "nbstream unlearn" + (f" -c {shlex.quote(str(options.config))}" if options.config else "")
    if options.user:
        unlearn += f" --user {shlex.quote(options.user)}"
    if count == 1:
        return (
            f"{name} has no header of a mail and is learned as bare text; if it is no message: "
            f"{unlearn} --id {first.tokenized.key}"
        )
    return (
        f"{count} of them have no header of a mail and are learned as bare texts, {name} first; "
        f"of what is no message: {unlearn} PATH"
    )
