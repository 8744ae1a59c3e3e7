"""The verdict of another filter, read from the header fields that it writes.

Rules: pure, and nothing raises. Anybody may write such fields. Therefore only those of the one filter that the
settings name are read, and all copies of them have to agree: where one says spam and another one ham, the verdict
is unclear, and counts for nobody. Most filters remove forged copies; rspamc leaves them where they are. Each
pattern reads the beginning of a value, of which no more than ``_MAX_VALUE_BYTES`` are looked at.

What the filters write was taken from the programs: SpamAssassin 4.0.1, rspamd 3.4 and bogofilter 1.2.5; amavis,
SpamBayes and DSPAM from their documentation. rspamd says ``True`` in X-Spamd-Result for the action reject alone.
Therefore ``False`` says ham only where no other field says more.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from nbstream.mail import header_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.compare.settings import CompareSettings, FilterName

_MAX_VALUE_BYTES = 1000
_NUMBER = r"(?P<score>[+-]?\d{1,9}(?:\.\d{1,9})?)"
_YES_NO = r"(?P<word>yes|no)\b"
_STATUS = rf"{_YES_NO}(?:,\s+(?:score|hits)={_NUMBER})?"
_RSPAMD_ACTION = r"(?P<word>no action|greylist|soft reject|add header|rewrite subject|quarantine|discard|reject)"


def _patterns(**by_name: str) -> Mapping[str, re.Pattern[str]]:
    return {name.replace("_", "-"): re.compile(pattern, re.IGNORECASE) for name, pattern in by_name.items()}


_TIERS: Mapping[str, Sequence[Mapping[str, re.Pattern[str]]]] = MappingProxyType(
    {
        "spamassassin": [_patterns(x_spam_status=_STATUS, x_spam_flag=_YES_NO, x_spam_score=_NUMBER)],
        "rspamd": [
            _patterns(
                x_spamd_result=rf"[\w.-]+: (?P<word>true|false) \[{_NUMBER} /",
                x_rspamd_action=_RSPAMD_ACTION,
                x_rspamd_score=_NUMBER,
                x_spam=_YES_NO,
                x_spam_action=_RSPAMD_ACTION,
                x_spam_score=_NUMBER,
            ),
            _patterns(x_spam_status=_STATUS),
        ],
        "bogofilter": [
            _patterns(
                x_bogosity=rf"(?P<word>spam|ham|unsure|yes|no)\b(?:, tests=bogofilter, spamicity={_NUMBER})?"
            )
        ],
        "spambayes": [_patterns(x_spambayes_classification=rf"(?P<word>spam|ham|unsure)\b(?:; {_NUMBER})?")],
        "dspam": [_patterns(x_dspam_result=r"(?P<word>spam|virus|blacklisted|innocent|whitelisted)\b")],
    }
)
"""The fields of each filter; those of a later tier are read where an earlier one gives no verdict.

rspamd leaves X-Spam-Status of others where it is, unless it is set up to write this field itself.
"""


class FilterVerdict(StrEnum):
    """The verdict of any filter. ``UNCLEAR``: its fields contradict each other."""

    HAM = "ham"
    UNSURE = "unsure"
    SPAM = "spam"
    UNCLEAR = "unclear"


_WORDS = {
    **dict.fromkeys(
        ("no", "ham", "innocent", "whitelisted", "no action", "greylist", "soft reject"), FilterVerdict.HAM
    ),
    **dict.fromkeys(("yes", "true", "spam", "virus", "blacklisted", "add header", "reject"), FilterVerdict.SPAM),
    **dict.fromkeys(("rewrite subject", "quarantine", "discard"), FilterVerdict.SPAM),
    "unsure": FilterVerdict.UNSURE,
}
_WEAK_HAM = "false"


@dataclass(frozen=True, slots=True)
class OtherVerdict:
    """The verdict of another filter; ``score`` is on its own scale, None where it writes none."""

    verdict: FilterVerdict
    score: float | None = None

    def pack(self) -> str:
        """Return the text that is stored."""
        return str(self.verdict) if self.score is None else f"{self.verdict} {self.score!r}"

    @classmethod
    def unpack(cls, packed: str) -> OtherVerdict | None:
        """Return the verdict that ``pack`` packed, None for any other text."""
        word, _, number = packed.partition(" ")
        try:
            score = float(number) if number else None
            return cls(FilterVerdict(word), score if score is None or math.isfinite(score) else None)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class OtherFilter:
    """The filter whose fields are believed. With ``unmarked_is_ham`` a message without any of them is its ham."""

    name: FilterName
    unmarked_is_ham: bool = False

    @classmethod
    def of(cls, settings: CompareSettings) -> OtherFilter:
        """Return the filter that the settings name."""
        return cls(settings.filter, settings.unmarked == "ham")

    @property
    def main_field(self) -> str:
        """The name of the field that says most, in lower case."""
        return next(iter(_TIERS[self.name][0]))

    def read(self, head: bytes) -> OtherVerdict | None:
        """Return the verdict in ``head``, the beginning of a message with CRLF line ends; None for no verdict."""
        fields = header_fields.parse_fields(head, header_fields.body_offset(head))
        for patterns in _TIERS[self.name]:
            if verdict := _read_verdict(fields, patterns):
                return verdict
        return OtherVerdict(FilterVerdict.HAM) if self.unmarked_is_ham and head else None

    def read_packed(self, head: bytes) -> str:
        """Return what ``read`` returns in its stored form, an empty text for no verdict."""
        verdict = self.read(head)
        return verdict.pack() if verdict else ""


def _read_verdict(
    fields: Sequence[header_fields.HeaderField], patterns: Mapping[str, re.Pattern[str]]
) -> OtherVerdict | None:
    words: list[str] = []
    scores: list[float] = []
    for field in fields:
        pattern = patterns.get(field.name)
        found = pattern.match(field.value[:_MAX_VALUE_BYTES].decode("latin-1")) if pattern else None
        groups = found.groupdict() if found else {}
        words += [word.lower() for word in (groups.get("word"),) if word]
        scores += [float(score) for score in (groups.get("score"),) if score]
    verdicts = {_WORDS[word] for word in words if word != _WEAK_HAM} or ({FilterVerdict.HAM} if words else set())
    if not verdicts:
        return None
    return OtherVerdict(
        verdicts.pop() if len(verdicts) == 1 else FilterVerdict.UNCLEAR, scores[0] if scores else None
    )
