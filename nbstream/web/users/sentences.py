"""Why a message was called what it was, in at most three sentences for somebody who knows no spam filters.

Rules: pure. What is named is what the reader can see in the message: its sender, its words, its links and
attachments. All else, such as the fields that servers add, which may name other recipients, is only counted as the
way in which the message is built; of private tokens nothing is named. Words of the message come with hidden
characters made visible; they are text and no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nbstream.mail.visible_text import visible_text
from nbstream.policy.verdict import Verdict
from nbstream.tokens.private_tokens import are_private
from nbstream.web.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.policy.check import CountedClue, Explanation

MAX_WORDS = 4
"""How many words of a message are named."""

_MAX_KINDS = 4  # of clues that are named
_MAX_WORD_LENGTH = 40


def describe(explanation: Explanation, language: str, *, is_corrected: bool = False) -> Sequence[str]:
    """Return at most three sentences in this language.

    ``is_corrected``: the reader's own model contributed, which knows only what they and those who share it have
    taught.
    """
    texts, verdict = TEXTS[language], Verdict(explanation.verdict)
    side = "unsure" if verdict is Verdict.UNSURE else "spam" if verdict.is_spam else "ham"
    sentences = [texts[f"like_{side}"].format(_percent(explanation.probability, texts))]
    if are_private(clue.token for clue in explanation.clues if clue.ham is not None):
        sentences.append(texts["why_private"])
    elif clues := _name_clues(_speaking(explanation.clues, side), texts):
        *first, last = clues
        listed = f"{', '.join(first)}{texts['why_and']}{last}" if first else last
        sentences.append(texts[f"weighed_{side}"].format(listed))
    if explanation.state.is_learning:
        sentences.append(texts["why_learning"])
    elif is_corrected:
        sentences.append(texts["why_corrected"])
    return sentences


def _percent(probability: float, texts: Mapping[str, str]) -> str:
    if probability < 0.01:
        return texts["percent_least"]
    return texts["percent_most"] if probability > 0.99 else f"{round(100 * probability)} %"


def _speaking(clues: Sequence[CountedClue], side: str) -> Iterable[CountedClue]:
    """Yield the clues that speak for the verdict, the strongest first; all of them where it is unsure."""
    return (clue for clue in clues if side == "unsure" or (clue.log_ratio > 0) == (side == "spam"))


def _name_clues(clues: Iterable[CountedClue], texts: Mapping[str, str]) -> Sequence[str]:
    """Return the clues in words: the kinds of clues by the strongest of each, with the words side by side."""
    by_kind: dict[str, list[str]] = {}
    for clue in clues:
        kind, text = _kind_of(clue.token.decode("utf-8", "replace"))
        named = by_kind.get(kind)
        if named is None and len(by_kind) < _MAX_KINDS:
            by_kind[kind] = [text]
        elif named is not None and kind == "word" and text not in named and len(named) < MAX_WORDS:
            named.append(text)
    if "address" in by_kind:
        by_kind.pop("domain", None)
    if len(by_kind) > 1:
        by_kind["form"] = by_kind.pop("form", [])  # it says least, and comes last
        if not by_kind["form"]:
            del by_kind["form"]
    named_clues = []
    for kind, names in by_kind.items():
        quoted = ", ".join(texts["quoted"].format(visible_text(name, _MAX_WORD_LENGTH)) for name in names)
        key = "words" if kind == "word" and len(names) > 1 else kind
        named_clues.append(texts[f"clue_{key}"].format(quoted))
    return named_clues


def _kind_of(token: str) -> tuple[str, str]:
    """Return the kind of a clue, and what is shown of it."""
    prefix, _, text = token.partition(":")
    match prefix:
        case "from":
            return ("address" if "@" in text else "domain"), text
        case "from.name":
            return "name", ""
        case "subject" | "body" if text:
            return "word", text
        case "url" if text:
            return "link", text
        case "file" | "file.shape" | "file.type":
            return "file", ""
    return "form", ""
