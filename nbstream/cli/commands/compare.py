"""``nbstream compare``: what this filter and the other one made of the same mail, and who was right.

Rules: nothing is learned or changed. Of the other filter only the fields count that the settings name.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_row_search
from nbstream.cli import interrupts, message_files
from nbstream.cli.commands import import_plots
from nbstream.cli.terminal import check_writable, print_note, printable, report_errors, translate_write_errors
from nbstream.compare.fields import OtherFilter
from nbstream.compare.reading import read_comparison
from nbstream.compare.report import DifferingMessage, render_json, render_text
from nbstream.errors import ConfigError, InputError
from nbstream.policy.envelope import head_of
from nbstream.policy.verdict import ModelState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.compare.comparison import Comparison, JudgedMessage
    from nbstream.compare.fields import OtherVerdict
    from nbstream.config import Settings
    from nbstream.store.recent.checked_messages import RecentMessages

_SHOWN_CLUES = 4


def run(options: argparse.Namespace) -> int:
    """Print the report and draw the picture; 66 for unreadable paths, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    if settings.compare is None:
        raise ConfigError("no other filter is named: write compare: {filter: rspamd}, or another one, and restart")
    check_writable([options.plot] if options.plot else [])
    plots = import_plots("nbstream.compare.plots") if options.plot else None
    errors: list[InputError] = []
    verdicts = _verdicts_in_mail(settings, options.mail, errors)
    comparison, shown = interrupts.run_interruptible(_compare(settings, options, verdicts))
    if options.json:
        print(render_json(comparison, shown))
    else:
        print("\n".join(map(printable, render_text(comparison, shown).split("\n"))))
    if not settings.remembers_envelopes or not settings.memory.messages:
        print_note("nbstream: nothing is remembered to compare: it needs memory.messages and memory.envelope")
    elif not comparison.messages and not options.mail:
        print_note(
            f"nbstream: where {settings.compare.filter} looks at mail after nbstream, name the folders of "
            "delivered mail: nbstream compare --mail FOLDER..."
        )
    if plots:
        with translate_write_errors(options.plot):
            plots.write_comparison_plot(options.plot, comparison)
    return report_errors(errors)


def _verdicts_in_mail(
    settings: Settings, paths: list[str], errors: list[InputError]
) -> Mapping[str, OtherVerdict]:
    """Return what the other filter says in delivered mail, by the ids of the messages."""
    assert settings.compare is not None
    reader, other_filter = make_message_reader(settings), OtherFilter.of(settings.compare)
    verdicts: dict[str, OtherVerdict] = {}
    for source in message_files.read_messages(paths, errors):
        message = reader.read_taught(source.raw)
        if verdict := other_filter.read(head_of(message)):
            verdicts[message.key] = verdict
    return verdicts


async def _compare(
    settings: Settings, options: argparse.Namespace, verdicts: Mapping[str, OtherVerdict]
) -> tuple[Comparison, list[DifferingMessage]]:
    assert settings.compare is not None
    async with open_one_shot_filter(settings) as (spam_filter, model):
        learned = (await model.totals()).messages_by_label()
        state = ModelState(learned, settings.model.min_learned.model_dump())
        comparison = await read_comparison(
            make_row_search(settings, model),
            model,
            settings.compare.filter,
            since=options.since,
            verdicts_in_mail=verdicts,
            learned_at=(await model.first_scores()).learned_at(state),
            we_act=settings.headers.mode == "mark",
        )
        memory = spam_filter.parts.checked_messages
        assert memory is not None
        return comparison, [await _explained(memory, m) for m in comparison.differing[: options.count]]


async def _explained(memory: RecentMessages, message: JudgedMessage) -> DifferingMessage:
    """Return the message with the strongest clues of its check, where they are remembered."""
    _, explanation = await memory.recall_with_explanation(message.id, wait=False) or (None, None)
    clues = explanation.clues[:_SHOWN_CLUES] if explanation else ()
    return DifferingMessage(message, [(clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in clues])
