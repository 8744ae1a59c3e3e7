"""From settings to working parts: what the daemon and the one-shot commands both need."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from nbstream import filter as filter_
from nbstream.bayes import (
    bernoulli,
    calibration,
    categorical,
    classifier,
    gaussian,
    lesson_weight,
    multinomial,
    priors,
)
from nbstream.config import FalsePositiveCost, FalsePositiveRate, SmtpNextHopSetting
from nbstream.filter.scorer import Scorer
from nbstream.mail import mime
from nbstream.policy import autolearn
from nbstream.policy.actions import VerdictActions
from nbstream.policy.policy import FalsePositiveBudget, Threshold, ThresholdPolicy, threshold_of_cost_ratio
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.relay.maildir_next_hop import MaildirNextHop
from nbstream.relay.quarantine import Quarantine
from nbstream.store import connection
from nbstream.store.embedded.server import EmbeddedRedis
from nbstream.store.model.autolearn_layer import AutolearnModel, LayeredCounts
from nbstream.store.model.model import Model
from nbstream.store.model.temporary import temporary_model
from nbstream.store.recent import checked_messages
from nbstream.tokens import tokenizer

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.config import (
        ActionsSettings,
        EventModelsSettings,
        MultinomialSettings,
        Settings,
        SmtpListenerSettings,
        VerdictSettings,
    )
    from nbstream.listeners.smtp import delivery, feedback
    from nbstream.listeners.smtp.listener import SmtpLimits
    from nbstream.relay.next_hop import NextHop

_DAY_SECONDS = 86_400

# Four functions import what only mail on its way needs (aiosmtpd, aiosmtplib): without it the commands that look
# at one message, or ask for the state, load a tenth fewer modules.


def mime_limits(settings: Settings) -> mime.MessageLimits:
    """How much of a message is looked at."""
    return mime.MessageLimits(settings.limits.look_bytes, settings.limits.max_parts, settings.limits.max_depth)


def make_policy(settings: Settings) -> ThresholdPolicy:
    """How the verdicts are found, for recipients without a rule."""
    return _make_policy(settings.verdict)


def _make_policy(verdict: VerdictSettings) -> ThresholdPolicy:
    until_promised = None if verdict.until_promised == "unsure" else float(verdict.until_promised)
    spam: Threshold
    if verdict.max_false_positive_rate is not None:
        spam = FalsePositiveBudget(verdict.max_false_positive_rate, until_promised)
    elif verdict.false_positive_cost is not None:
        spam = threshold_of_cost_ratio(verdict.false_positive_cost)
    else:
        assert verdict.spam is not None  # one of the three is a number
        spam = verdict.spam
    return ThresholdPolicy(verdict.unsure, spam, _reject_threshold(verdict.reject))


def _reject_threshold(threshold: float | FalsePositiveCost | FalsePositiveRate | None) -> Threshold | None:
    match threshold:
        case FalsePositiveCost(ratio):
            return threshold_of_cost_ratio(ratio)
        case FalsePositiveRate(rate):
            return FalsePositiveBudget(rate)  # nothing is refused on a promise that is not kept yet
    return threshold


def make_rules(settings: Settings) -> RecipientRules:
    """Which policy and which actions hold for whom."""
    found = [
        RecipientRule.at_position(place, rule.match, _make_policy(rule.verdict), _make_actions(rule.actions))
        for place, rule in enumerate(settings.recipients)
    ]
    return RecipientRules.build(make_policy(settings), _make_actions(settings.actions), found)


def _make_actions(chosen: ActionsSettings) -> VerdictActions:
    return VerdictActions(chosen.ham, chosen.unsure, chosen.spam, chosen.reject)


def make_quarantine(settings: Settings) -> Quarantine:
    """Where messages wait."""
    return Quarantine(settings.quarantine_folder)


def make_model(settings: Settings, client: Redis) -> Model:
    """The model that the settings name."""
    return Model(
        client,
        settings.model.name,
        settings.model.ledger_days * _DAY_SECONDS,
        settings.model.half_life_days,
        first_scores=settings.memory.first_scores,
    )


def make_autolearn_model(settings: Settings, client: Redis, name: str | None = None) -> AutolearnModel:
    """The layer of a model, by default the one of the settings, that is learned without people."""
    return AutolearnModel(client, name or settings.model.name, settings.model.ledger_days * _DAY_SECONDS)


def make_autolearner(
    settings: Settings,
    people: filter_.LessonStore,
    counts: filter_.CountSource,
    layer: filter_.AutolearnLayer,
    told: Callable[[str, str], object] = lambda _label, _outcome: None,
) -> filter_.Autolearner:
    """What learns without people; ``counts`` are those of ``people`` alone."""
    chosen = settings.autolearn
    assert chosen is not None
    params = autolearn.AutolearnOptions(chosen.ham, chosen.spam, chosen.lead)
    return filter_.Autolearner(people, layer, make_scorer(settings, counts), params, told)


def make_recent_messages(
    settings: Settings, model: Model, dropped: Callable[[int], None] = lambda _: None
) -> checked_messages.RecentMessages:
    """What is remembered of the model's checked messages; ``dropped`` is told how many are not."""
    chosen = settings.memory
    params = checked_messages.RecentMessagesOptions(chosen.hours * 3600, chosen.messages, chosen.explanations)
    return checked_messages.RecentMessages(model.client, model.keys, params, dropped)


def classifier_options(settings: Settings) -> classifier.ClassifierOptions:
    """How features are weighed, and how much is learned."""
    return classifier.ClassifierOptions(
        event_models=make_event_models(settings.model.event_models),
        prior=priors.PriorOptions(settings.model.prior_messages),
        lesson_weight=lesson_weight.LessonWeightOptions() if settings.model.learning_weights == "error" else None,
    )


def make_event_models(chosen: EventModelsSettings) -> classifier.EventModelOptions:
    """The event models that the settings name."""
    return classifier.EventModelOptions(
        multinomial=_multinomial_options(chosen.multinomial) if chosen.multinomial else None,
        bernoulli=bernoulli.BernoulliOptions(**chosen.bernoulli.model_dump()) if chosen.bernoulli else None,
        categorical=categorical.CategoricalOptions(**chosen.categorical.model_dump())
        if chosen.categorical
        else None,
        gaussian=gaussian.GaussianOptions(**chosen.gaussian.model_dump()) if chosen.gaussian else None,
    )


def _multinomial_options(chosen: MultinomialSettings) -> multinomial.MultinomialOptions:
    smoothing: multinomial.Smoothing
    if chosen.m is not None:
        smoothing = multinomial.MEstimate(chosen.m)
    else:
        assert chosen.alpha is not None
        smoothing = multinomial.Lidstone(chosen.alpha)
    return multinomial.MultinomialOptions(smoothing, chosen.complement)


def make_filter(  # noqa: PLR0913 - most have a default, and are named where they are given
    settings: Settings,
    model: filter_.LessonStore,
    counts: filter_.CountSource,
    observer: filter_.FilterObserver | None = None,
    *,
    make_tokenizer: type[tokenizer.Tokenizer] = tokenizer.Tokenizer,
    memory: filter_.CheckedMessageSource | None = None,
    auto: filter_.AutolearnLayer | None = None,
    line: filter_.CheckQueue | None = None,
) -> filter_.Filter:
    """The filter over a model; ``counts`` is the mirror or the model itself, ``auto`` the layer beside it."""
    parts = filter_.FilterParts(
        tokenizer=make_tokenizer(tokenizer_options(settings)),
        classifier=classifier.Classifier(classifier_options(settings)),
        calibration=calibration.Calibration(),
        model=model,
        counts=LayeredCounts(counts, auto.counts) if auto else counts,
        observer=observer or filter_.SilentObserver(),
        checked_messages=memory,
        autolearn_layer=auto,
        check_queue=line,
    )
    return filter_.Filter(parts, make_filter_policy(settings))


def tokenizer_options(settings: Settings) -> tokenizer.TokenizerOptions:
    """What is made of a message."""
    chosen = settings.model.event_models
    return tokenizer.TokenizerOptions(
        max_tokens=settings.limits.max_tokens,
        attributes=chosen.categorical is not None,
        numbers=chosen.gaussian is not None,
    )


def make_scorer(settings: Settings, counts: filter_.CountSource) -> Scorer:
    """The filter's scores over other counts."""
    chosen = classifier.Classifier(classifier_options(settings))
    return Scorer(chosen, calibration.Calibration(), counts, make_filter_policy(settings))


def make_filter_policy(settings: Settings) -> filter_.FilterPolicy:
    """The policy, and how much must be known before it holds."""
    others = tuple(rule.treatment.policy for rule in make_rules(settings).rules)
    return filter_.FilterPolicy(make_policy(settings), settings.model.min_learned.model_dump(), others)


def make_next_hop(settings: Settings) -> NextHop:
    """Where mail goes next."""
    hop = settings.relay.next_hop
    if isinstance(hop, SmtpNextHopSetting):
        from nbstream.relay import smtp_connections  # noqa: PLC0415  # see above
        from nbstream.relay.smtp_next_hop import SmtpNextHop  # noqa: PLC0415  # see above

        params = smtp_connections.NextHopLimits(
            connect_timeout_seconds=settings.relay.connect_timeout_seconds,
            reply_timeout_seconds=settings.relay.reply_timeout_seconds,
            max_connections=settings.relay.max_connections,
        )
        return SmtpNextHop(hop.address.host, hop.address.port, params)
    assert settings.maildir_folder is not None
    return MaildirNextHop(settings.maildir_folder)


def smtp_limits(listener: SmtpListenerSettings) -> SmtpLimits:
    """The limits of the SMTP door."""
    from nbstream.listeners.smtp.listener import SmtpLimits  # noqa: PLC0415  # see above

    return SmtpLimits(
        hostname=listener.hostname or socket.getfqdn(),
        max_message_bytes=listener.max_message_bytes,
        idle_timeout_seconds=listener.idle_timeout_seconds,
        max_connections=listener.max_connections,
        max_bytes_in_flight=listener.max_bytes_in_flight,
        max_recipients=listener.max_recipients,
    )


def delivery_options(settings: Settings) -> delivery.DeliveryOptions:
    """How a message is marked, and what a failed check does."""
    from nbstream.listeners.smtp import delivery  # noqa: PLC0415  # see above

    return delivery.DeliveryOptions(
        model=settings.model.name,
        rules=make_rules(settings),
        limits=mime_limits(settings),
        pass_on_failure=settings.on_filter_failure == "pass",
        clues=settings.headers.clues,
    )


def feedback_options(settings: Settings) -> feedback.FeedbackOptions:
    """Who may teach by mail."""
    from nbstream.listeners.smtp import feedback  # noqa: PLC0415  # see above

    return feedback.FeedbackOptions(
        spam_address=settings.feedback.spam_address,
        ham_address=settings.feedback.ham_address,
        allow_from=tuple(ipaddress.ip_network(network) for network in settings.feedback.allow_from),
        limits=mime_limits(settings),
    )


@dataclass(frozen=True, slots=True)
class RedisClients:
    """The way to Redis: a client to work with, one for the mirror, and the embedded server where there is one."""

    client: Redis
    blocking_client: Redis
    embedded: EmbeddedRedis | None = None


@asynccontextmanager
async def open_redis(settings: Settings) -> AsyncIterator[RedisClients]:
    """Two clients, and the use of the embedded server; all given back at the end.

    No server is contacted or started here. Raises ``ConfigError`` for a state folder that cannot be used.
    """
    async with AsyncExitStack() as stack:
        embedded, url = None, settings.redis.url.get_secret_value()
        if settings.redis.is_embedded:
            embedded = EmbeddedRedis(settings.state_dir)
            stack.push_async_callback(embedded.release)
            url = f"unix://{quote(await embedded.join())}"
        password = settings.redis.password.get_secret_value() if settings.redis.password else None
        params = connection.ConnectionOptions(url, password, settings.redis.timeout_seconds, settings.model.name)
        client, follower = connection.open_client(params), connection.open_client(params, retries=0)
        stack.push_async_callback(client.aclose)
        stack.push_async_callback(follower.aclose)
        yield RedisClients(client, follower, embedded)


@asynccontextmanager
async def open_one_shot_filter(
    settings: Settings, *, sign: bool = False
) -> AsyncIterator[tuple[filter_.Filter, Model]]:
    """A filter that reads Redis itself, for commands that look at few messages; ``sign`` a model that is new.

    Raises ``ConfigError``, ``StoreIncompatible`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_redis(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        found = make_model(settings, opened.client)
        await found.open(sign=sign)
        auto = None
        if settings.autolearn:
            layer = make_autolearn_model(settings, opened.client)
            await layer.open(sign=sign)
            auto = filter_.AutolearnLayer(layer, layer)
        yield make_filter(settings, found, found, memory=make_recent_messages(settings, found), auto=auto), found


@asynccontextmanager
async def open_autolearn_model(settings: Settings) -> AsyncIterator[AutolearnModel]:
    """The layer that is learned without people, in use or not, and whatever wrote it.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_redis(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        yield make_autolearn_model(settings, opened.client)


@asynccontextmanager
async def open_temporary_model(settings: Settings, purpose: str) -> AsyncIterator[Model]:
    """A new model in the Redis of ``settings``, named after its ``purpose`` and removed at the end.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_redis(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        ledger_seconds, first_scores = settings.model.ledger_days * _DAY_SECONDS, settings.memory.first_scores
        async with temporary_model(opened.client, purpose, ledger_seconds, first_scores) as found:
            yield found
