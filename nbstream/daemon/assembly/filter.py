"""The filter and what it is made of, and what learns without people, from settings.

The library imports this module: it loads no Redis and nothing of a server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from nbstream import filter as filter_
from nbstream.bayes import calibration, classifier
from nbstream.correspondents.facts import CorrespondentTokenizer
from nbstream.daemon.assembly.policy import make_evidence_reader, make_filter_policy
from nbstream.engine.choice import PYTHON, Engine
from nbstream.engine.name_numbers import make_name_numbers
from nbstream.filter import Autolearner
from nbstream.filter.scorer import Scorer
from nbstream.tokens import tokenizer
from nbstream.tokens.native_tokenizer import make_tokenizer
from nbstream.tokens.private_tokens import PrivateTokenizer, TokenHasher, read_or_make_key

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.daemon.config import Settings
    from nbstream.filter import CountSource, LessonStore
    from nbstream.filter.canaries import Canaries
    from nbstream.filter.own_models.index import UserLabels
    from nbstream.store.recent.checked_messages import RecentMessages

_PRIVATE_KEY_FILE = "private-tokens.key"  # in ``state_dir``


def tokenizer_options(settings: Settings) -> tokenizer.TokenizerOptions:
    """Return which tokens are made of a message."""
    return tokenizer.TokenizerOptions(
        trusted_authserv_ids=frozenset(settings.trusted_authserv_ids),
        own_received_fields=settings.own_received_fields,
    )


def make_hasher(settings: Settings, engine: Engine = PYTHON) -> TokenHasher | None:
    """Return what makes the names of private tokens; None where the model stores words.

    Raises ``ConfigError`` where there is no key.
    """
    if not settings.model.private_tokens:
        return None
    return TokenHasher(key_in(private_key_file(settings), "model.private_tokens"), engine.native_library)


def private_key_file(settings: Settings) -> Path:
    """Return the file with the key of private tokens."""
    return settings.state_dir / _PRIVATE_KEY_FILE


@lru_cache
def key_in(file: Path, setting: str) -> bytes:
    """Return the key, which is read once: models are opened later too, and must not get another than messages."""
    return read_or_make_key(file, setting)


def key_fingerprint(settings: Settings) -> str:
    """Return the fingerprint of the key of private tokens; empty where the model stores words.

    Raises ``ConfigError`` where there is no key.
    """
    hasher = make_hasher(settings)
    return hasher.fingerprint if hasher else ""


def make_model_tokenizer(
    settings: Settings, engine: Engine, known: Callable[[], CorrespondentFacts] | None = None
) -> tokenizer.Tokenizer:
    """Return what takes messages apart into the tokens that the model stores: words, or keyed hashes of them.

    ``known`` returns what is known of correspondents at the moment. Raises ``ConfigError`` where there is no key
    for the hashes.
    """
    in_words = make_tokenizer(tokenizer_options(settings), engine.native_library)
    if known:
        in_words = CorrespondentTokenizer(in_words, known, make_evidence_reader(settings), time.time)
    hasher = make_hasher(settings, engine)
    return PrivateTokenizer(in_words, hasher) if hasher else in_words


def make_filter(  # noqa: PLR0913 - most have a default, and are named where they are given
    settings: Settings,
    model: filter_.LessonStore,
    counts: filter_.CountSource,
    observer: filter_.FilterObserver | None = None,
    *,
    wrap_tokenizer: Callable[[tokenizer.Tokenizer], tokenizer.Tokenizer] | None = None,
    known: Callable[[], CorrespondentFacts] | None = None,
    checked_messages: RecentMessages | None = None,
    uses_automatic: bool = False,
    user_labels: UserLabels | None = None,
    check_queue: filter_.CheckQueue | None = None,
    canaries: Canaries | None = None,
    engine: Engine = PYTHON,
) -> filter_.Filter:
    """Return the filter over a model.

    ``engine`` takes messages apart and scores them by the counts of ``counts``, whatever holds them.
    ``wrap_tokenizer`` may wrap what takes messages apart; ``known`` is that of ``make_model_tokenizer``.
    ``counts`` are in memory, or the model itself, and ``uses_automatic`` says whether checks use what is learned
    there without people.
    """
    own_tokenizer = make_model_tokenizer(settings, engine, known)
    parts = filter_.FilterParts(
        tokenizer=wrap_tokenizer(own_tokenizer) if wrap_tokenizer else own_tokenizer,
        classifier=classifier.Classifier(engine.native_library),
        calibration=calibration.Calibration(library=engine.native_library),
        model=model,
        counts=counts,
        observer=observer or filter_.FilterObserver(),
        checked_messages=checked_messages,
        uses_automatic=uses_automatic,
        user_labels=user_labels,
        check_queue=check_queue,
        canaries=canaries,
        make_name_numbers=partial(make_name_numbers, engine.native_library),
    )
    return filter_.Filter(parts, make_filter_policy(settings))


def make_autolearner(
    settings: Settings,
    model: LessonStore,
    counts: CountSource,
    report_outcome: Callable[[str, str], object] = lambda _label, _outcome: None,
) -> Autolearner:
    """Return what learns without people into ``model``, whose counts are ``counts``.

    ``report_outcome`` is called with the label and the outcome of each lesson.
    """
    assert settings.autolearn is not None
    by_people = Scorer(classifier.Classifier(), calibration.Calibration(), counts, make_filter_policy(settings))
    return Autolearner(model, counts, by_people, settings.autolearn, report_outcome)
