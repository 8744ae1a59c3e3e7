"""The filter and what it is made of, and what learns without people, from settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from nbstream import filter as filter_
from nbstream.bayes import calibration, classifier
from nbstream.correspondents.facts import CorrespondentTokenizer
from nbstream.daemon.assembly.policy import make_evidence_reader, make_filter_policy, make_own_model_names
from nbstream.daemon.assembly.store import (
    followed_of,
    make_correspondent_reader,
    make_follower,
    make_hasher,
    make_model,
    make_own_models,
    make_recent_messages,
    make_user_labels,
    open_running_redis,
)
from nbstream.engine.choice import PYTHON, Engine, choose_engine
from nbstream.engine.name_numbers import make_name_numbers
from nbstream.filter import Autolearner
from nbstream.filter.own_models.filters import OwnFilters
from nbstream.filter.scorer import Scorer
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.model.model import Model
from nbstream.tokens import tokenizer
from nbstream.tokens.native_tokenizer import make_tokenizer
from nbstream.tokens.private_tokens import PrivateTokenizer

if TYPE_CHECKING:
    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.daemon.config import Settings
    from nbstream.filter import CountSource, LessonStore
    from nbstream.store.canaries import Canaries
    from nbstream.store.recent.checked_messages import RecentMessages
    from nbstream.store.user_labels import UserLabels

_LESSON_SECONDS = 5.0  # of one command of Redis


def tokenizer_options(settings: Settings) -> tokenizer.TokenizerOptions:
    """Return which tokens are made of a message."""
    return tokenizer.TokenizerOptions(
        trusted_authserv_ids=frozenset(settings.trusted_authserv_ids),
        own_received_fields=settings.own_received_fields,
    )


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
    ``counts`` is the mirror or the model itself, and ``uses_automatic`` says whether checks use what is learned
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


@asynccontextmanager
async def open_one_shot_filter(
    settings: Settings, *, sign: bool = False, user: str | None = None, reads_messages: bool = False
) -> AsyncIterator[tuple[filter_.Filter, Model]]:
    """Open a filter that reads Redis itself, for commands that look at few messages, and its model.

    ``sign``: a model that is new gets the signature of this version. ``user`` is the address of somebody whose own
    model it is to be; without one he has the common model. ``reads_messages``: the filter is to take messages
    apart, and has to know of correspondents.

    Raises ``ConfigError``, ``StoreIncompatible`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    engine = choose_engine()
    async with open_running_redis(settings) as clients:
        model = make_model(settings, clients.client)
        await model.open(sign=sign)
        recent_messages = make_recent_messages(settings, model)
        store = make_correspondent_reader(settings, clients.client) if reads_messages else None
        facts = await store.load() if store else None
        common = make_filter(
            settings,
            model,
            model,
            known=(lambda: facts) if facts else None,
            checked_messages=recent_messages,
            uses_automatic=bool(settings.autolearn),
            user_labels=make_user_labels(settings, clients.client) if settings.autolearn else None,
            engine=engine,
        )
        try:
            if user is None:
                yield common, model
                return
            own_models = make_own_models(settings, clients)
            names = make_own_model_names(settings)
            # A copy of the own counts: there are few of them. A lesson waits until the copy has its change.
            follower = make_follower(clients, followed_of(settings, own_models))
            following = asyncio.create_task(follower.run(), name="follower")
            try:
                own = await OwnFilters(common, names, own_models, wait_seconds=0.0).for_user(user, sign=sign)
                yield own, own.parts.model if isinstance(own.parts.model, Model) else model
            finally:
                await cancel_and_wait(following)
        finally:
            await common.wait_for_lesson_groups(_LESSON_SECONDS)  # whose callers were cancelled


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
