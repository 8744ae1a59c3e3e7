"""``nbstream tune``: what other thresholds would have done to the mail that was labelled last.

Rules: nothing is scored, learned or changed; all is read from the prequential scores that the model remembers. The
present policy is that of the configuration. Others are those of its rules for recipients, and that of ``--with``,
of which only the verdict section counts.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.daemon.assembly.policy import make_policy, make_rules
from nbstream.evaluation import threshold_report, tuning
from nbstream.policy.verdict import ModelState
from nbstream.terminal import (
    is_styled,
    print_error,
    printable,
    terminal_columns,
)

if TYPE_CHECKING:
    from nbstream.terminal import Output

_NAME_LENGTH = 24


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the table and the answers; ``StoreUnavailable`` (75) when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    others = []
    if options.other:
        name = printable(options.other.name)[-_NAME_LENGTH:]
        others = [(f"with {name}", make_policy(config.load_settings(options.other)))]
    others += tuning.policies_of_rules(make_rules(settings))
    async with open_one_shot_filter(settings) as (_, model):
        prequential_scores = await model.prequential_scores()
        learned = (await model.totals()).messages_by_label()
    learned_at = prequential_scores.learned_at(ModelState(learned, settings.model.messages_needed))
    result = tuning.compare_thresholds(prequential_scores, make_policy(settings), others, learned_at)
    for warning in threshold_report.sample_warnings(result, settings.model.name):
        print_error(warning)
    text = threshold_report.render_text(result, settings.model.name, width=terminal_columns(), bold=is_styled())
    output.show(text, threshold_report.members(result, settings.model.name), styled=True)
