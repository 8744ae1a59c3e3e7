"""Why a message was called what it was, in at most three sentences for somebody who knows no spam filters.

Rules: pure. What is named is what the reader can see in the message: its sender, its words, its links and
attachments. All else, such as the fields that servers add, which may name other recipients, is only counted as the
way in which the message is built; of private tokens nothing is named. Words of the message come with hidden
characters made visible; they are text and no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.mail.visible_text import visible_text
from nbstream.policy.verdict import Verdict
from nbstream.tokens.private_tokens import are_private

if TYPE_CHECKING:
    from nbstream.policy.check import CountedClue, Explanation

MAX_WORDS = 4
"""How many words of a message are named."""

_MAX_KINDS = 4  # of clues that are named
_MAX_WORD_LENGTH = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class _Language:
    """The texts of one language; ``like`` is by the verdict, ``weighed`` by what speaks for it."""

    like: Mapping[bool | None, str]
    weighed: Mapping[bool | None, str]
    called: Mapping[str, str]
    learning: str
    corrected: str
    private: str
    percent: str
    almost_none: str
    almost_all: str
    quoted: str
    last: str
    clues: Mapping[str, str]


_LANGUAGES: Mapping[str, _Language] = {
    "en": _Language(
        like={
            True: "It looks like spam ({percent}).",
            False: "It does not look like spam ({percent}).",
            None: "It looks {percent} like spam, which is not enough to be sure.",
        },
        weighed={
            True: "What weighed most against it: {clues}.",
            False: "What weighed most for it: {clues}.",
            None: "What weighed most: {clues}.",
        },
        called={"spam": "You have called this message spam.", "ham": "You have called this message wanted."},
        learning="The filter has not seen enough mail yet to be sure of anything.",
        corrected="Corrections by users here had a say in it.",
        private="This server stores no words, and so cannot say which ones weighed most.",
        percent="{number} %",
        almost_none="less than 1 %",
        almost_all="more than 99 %",
        quoted="\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}",
        last=" and ",
        clues={
            "address": "the sender {0}",
            "domain": "the sender's domain {0}",
            "name": "the name of the sender",
            "word": "the word {0}",
            "words": "the words {0}",
            "link": "a link to {0}",
            "file": "an attachment",
            "form": "the way in which the message is built",
        },
    ),
    "de": _Language(
        like={
            True: "Die Nachricht sieht nach Spam aus ({percent}).",
            False: "Die Nachricht sieht nicht nach Spam aus ({percent}).",
            None: "Die Nachricht sieht zu {percent} nach Spam aus; das reicht nicht, um sicher zu sein.",
        },
        weighed={
            True: "Am meisten sprach gegen sie: {clues}.",
            False: "Am meisten sprach für sie: {clues}.",
            None: "Am meisten wogen: {clues}.",
        },
        called={
            "spam": "Sie haben diese Nachricht Spam genannt.",
            "ham": "Sie haben diese Nachricht erwünscht genannt.",
        },
        learning="Der Filter hat noch zu wenig Post gesehen, um sicher zu sein.",
        corrected="Korrekturen von Nutzern hier haben dabei mitgesprochen.",
        private="Dieser Server speichert keine Wörter und kann daher nicht sagen, welche am meisten wogen.",
        percent="{number} %",
        almost_none="weniger als 1 %",
        almost_all="mehr als 99 %",
        quoted="\N{DOUBLE LOW-9 QUOTATION MARK}{text}\N{LEFT DOUBLE QUOTATION MARK}",
        last=" und ",
        clues={
            "address": "der Absender {0}",
            "domain": "die Domain des Absenders {0}",
            "name": "der Name des Absenders",
            "word": "das Wort {0}",
            "words": "die Wörter {0}",
            "link": "ein Link zu {0}",
            "file": "ein Anhang",
            "form": "der Aufbau der Nachricht",
        },
    ),
}


def describe(
    explanation: Explanation, label: str | None, language: str, *, is_corrected: bool = False
) -> Sequence[str]:
    """Return at most three sentences in this language.

    ``label`` is what the reader has called the message. ``is_corrected``: their own model contributed, which knows
    only what they and those who share it have taught.
    """
    texts = _LANGUAGES[language]
    verdict = Verdict(explanation.verdict)
    is_spam = None if verdict is Verdict.UNSURE else verdict.is_spam
    sentences = [texts.like[is_spam].format(percent=_percent(explanation.probability, texts))]
    if are_private(clue.token for clue in explanation.clues if clue.ham is not None):
        sentences.append(texts.private)
    elif clues := _name_clues(_speaking(explanation.clues, is_spam), texts):
        *first, last = clues
        listed = f"{', '.join(first)}{texts.last}{last}" if first else last
        sentences.append(texts.weighed[is_spam].format(clues=listed))
    if label is not None:
        sentences.append(texts.called[label])
    elif explanation.state.is_learning:
        sentences.append(texts.learning)
    elif is_corrected:
        sentences.append(texts.corrected)
    return sentences


def _percent(probability: float, texts: _Language) -> str:
    if probability < 0.01:
        return texts.almost_none
    if probability > 0.99:
        return texts.almost_all
    return texts.percent.format(number=round(100 * probability))


def _speaking(clues: Sequence[CountedClue], is_spam: bool | None) -> Iterable[CountedClue]:
    """Yield the clues that speak for the verdict, the strongest first; all of them where it is unsure."""
    return (clue for clue in clues if is_spam is None or (clue.log_ratio > 0) == is_spam)


def _name_clues(clues: Iterable[CountedClue], texts: _Language) -> Sequence[str]:
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
        quoted = ", ".join(texts.quoted.format(text=visible_text(name, _MAX_WORD_LENGTH)) for name in names)
        named_clues.append(texts.clues["words" if kind == "word" and len(names) > 1 else kind].format(quoted))
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
