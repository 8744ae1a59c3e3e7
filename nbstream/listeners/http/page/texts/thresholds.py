"""The texts of the view thresholds."""

from __future__ import annotations

TEXTS = {
    "name": "Thresholds",
    "title": "Thresholds",
    "sample": (
        "These are the last {count:,} messages labelled in the model {model}: {ham:,} ham and {spam:,} spam."
    ),
    "sample.one": "This is the only message labelled in the model {model}: {ham:,} ham and {spam:,} spam.",
    "left_out": (
        "{count:,} messages were labelled while the model was learning, and are left out: what it thought of them "
        "then says nothing about the mail of today."
    ),
    "left_out.one": (
        "One message was labelled while the model was learning, and is left out: what it thought of it then says "
        "nothing about the mail of today."
    ),
    "no_sample": (
        "Nobody has labelled a message in the model {model} yet, so nothing is known of other thresholds. Teach "
        "by mail, with nbstream learn, or with the buttons of a message: every label counts here."
    ),
    "few": (
        "Only {ham:,} ham and {spam:,} spam are known. With so few, an error that was never seen may still happen "
        "to {ham_share} of the ham, or to {spam_share} of the spam."
    ),
    "not_loaded": "The counts are not loaded yet. Reload the page in a moment.",
    "no_such_policy": "There is no such rule: the configuration may have changed.",
    # the form
    "try": "Try other thresholds",
    "try_help": (
        "Drag a mark, enter a number, or choose a budget. Below you see what these thresholds would have done. "
        "Nothing is changed by it."
    ),
    "for_policy": "These are the thresholds for {policy}.",
    "all_recipients": "all recipients",
    "other_recipients": "all recipients without a rule of their own",
    "rule": "recipients that match {pattern}",
    "unsure": "unsure from P(spam)",
    "spam": "spam from P(spam)",
    "spam_budget": "or a budget: of the ham at most",
    "reject": "reject from P(spam)",
    "reject_budget": "or a budget: of the ham at most",
    "no_budget": "no budget",
    "empty_never": "empty: never",
    "show": "Show",
    "back": "Back to the thresholds in force",
    # what is wrong in the form
    "problem.needed": "Enter a number, or choose a budget.",
    "problem.not_a_probability": "Enter a number above 0 and below 1.",
    "problem.not_offered": "Choose one of the budgets offered.",
    "problem.below_unsure": "Enter at least the threshold for unsure.",
    "problem.below_spam": "Enter at least the threshold for spam, or nothing.",
    "problem.larger_than_spam": "Choose no more than the budget for spam.",
    "problem.above_until_promised": "Enter no more than verdict.until_promised, {until}.",
    "wrong": "These thresholds cannot be used. The field that is wrong says why.",
    "failed": "The daemon did not answer: these numbers are not those of the thresholds that you see. Try again.",
    # the chart of the distribution
    "distribution": "P(spam) of ham and spam before their labels",
    "distribution_description": (
        "Ham above the middle line, spam below it, on a logarithmic scale of messages; P(spam) from left to right."
    ),
    "ham": "ham",
    "spam_class": "spam",
    "x_probability": "P(spam), spread by its log-odds",
    "handle.unsure": "unsure",
    "handle.spam": "spam",
    "handle.reject": "reject",
    "value.unsure": "unsure from {p}",
    "value.spam": "spam from {p}",
    "value.reject": "reject from {p}",
    "never.spam": "never called spam",
    "never.reject": "never rejected",
    "numbers": "The same as a table",
    "from": "P(spam) from",
    "to": "to",
    # the outcome
    "outcome": "What they would have done",
    "summary": "These thresholds {changes}.",
    "no_messages": "No message is labelled, so nobody knows what these thresholds would have done.",
    "same": "These are the thresholds in force.",
    "measure": "of the messages labelled",
    "present": "in force",
    "chosen": "tried",
    "interval": "95 % interval",
    "ham_lost": "ham lost: called spam",
    "spam_missed": "spam missed: not called spam",
    "ham_rejected": "ham refused, of the ham lost",
    "spam_rejected": "spam refused",
    "ham_unsure": "ham called unsure",
    "spam_unsure": "spam called unsure",
    "cost": "cost, if a lost ham is worth {ratio:.3g} passed spam",
    "of": "{count:,} of {total:,}, {percent}",
    "unknown": "not known",
    "line": "To use them, put this line into the configuration, in place of its section verdict:",
    "rule_line": "To use them, put this line into the rule for {pattern}, in place of its section verdict:",
    "line_help": "Then: nbstream config check, and nbstream reload.",
    "copy": "Copy",
    "copied": "Copied.",
    # the error trade-off
    "det": "Ham lost and spam missed, by threshold",
    "det_description": (
        "A curve from few ham lost and much spam missed to the reverse, with the 95 % interval as a band. Circle: "
        "in force. Diamond: tried. Crosses: budgets that can be promised. The lower left corner is the best."
    ),
    "det_x": "ham called spam (%)",
    "det_y": "spam missed (%)",
    "det_empty": "This chart needs labelled ham and labelled spam.",
    "det_present": "in force",
    "det_chosen": "tried",
    "det_legend": (
        "Circle: in force. Diamond: tried. Crosses: budgets that can be promised. The lower left corner is best."
    ),
    "table": "Thresholds side by side, as nbstream tune shows them",
    "choice": "Thresholds",
    "from_p": "spam from P(spam)",
    "unsure_count": "unsure",
    "cost_column": "cost at {ratio:.3g}",
    # policies
    "policies": "Policies in force",
    "policy": "Recipients",
    "promise": "Promise",
    "no_promise": "no budget",
    # budgets
    "budgets": "Budgets",
    "budgets_help": (
        "A budget is the share of the ham that may be called spam. It can be promised once enough ham is "
        "labelled: all ham, or a fair sample of it, and not the errors alone. Until then the threshold in force "
        "stays. Ham lost counts here what was called spam by the threshold of its time."
    ),
    "budget": "Of the ham at most",
    "state": "Promise now",
    "lost_of_allowed": "Lost against allowed",
    "use": "{lost:,} lost, {allowed:.1f} allowed, of {messages:,} ham (p {p:.2f})",
    "not_kept": "not in force",
    "try_budget_label": "Try a budget of {rate}",
    "p_help": (
        "p says how likely it is to lose so many ham or more while the budget is kept: below 0.05 it was hardly "
        "kept."
    ),
    "budget_chart": "The budget of {rate}: ham lost and allowed over time",
    "budget_description": "{lost:,} ham lost and {allowed:.1f} allowed, of {messages:,} ham that came.",
    "budget_y": "ham",
    "lost": "lost",
    "allowed": "allowed",
    "at": "up to",
    "came": "ham that came",
}
