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
from nbstream.config import FalsePositiveCost, FalsePositiveRate, SmtpHop
from nbstream.filter.scorer import Scorer
from nbstream.mail import mime
from nbstream.policy import autolearn
from nbstream.policy.actions import Actions
from nbstream.policy.policy import Budget, Policy, Threshold, of_cost
from nbstream.policy.recipient_rules import Rule, Rules
from nbstream.relay.maildir_next_hop import MaildirNextHop
from nbstream.relay.quarantine import Quarantine
from nbstream.store import connection
from nbstream.store.embedded.server import EmbeddedRedis
from nbstream.store.model.autolearn_layer import Layer, Layered
from nbstream.store.model.model import Model
from nbstream.store.model.temporary import temporary_model
from nbstream.store.recent import checked_messages
from nbstream.tokens import tokenizer

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.config import Actions as ChosenActions
    from nbstream.config import EventModels as ChosenModels
    from nbstream.config import Multinomial as MultinomialSettings
    from nbstream.config import Settings
    from nbstream.config import SmtpListener as SmtpSettings
    from nbstream.config import Verdict as VerdictSettings
    from nbstream.listeners.smtp import delivery, feedback
    from nbstream.listeners.smtp.listener import Params as SmtpParams
    from nbstream.relay.next_hop import NextHop

_DAY = 86_400

# Four functions import what only mail on its way needs (aiosmtpd, aiosmtplib): without it the commands that look
# at one message, or ask for the state, load a tenth fewer modules.


def limits(settings: Settings) -> mime.Limits:
    """How much of a message is looked at."""
    return mime.Limits(settings.limits.look_bytes, settings.limits.max_parts, settings.limits.max_depth)


def policy(settings: Settings) -> Policy:
    """How the verdicts are found, for recipients without a rule."""
    return _policy(settings.verdict)


def _policy(verdict: VerdictSettings) -> Policy:
    until_promised = None if verdict.until_promised == "unsure" else float(verdict.until_promised)
    spam: Threshold
    if verdict.max_false_positive_rate is not None:
        spam = Budget(verdict.max_false_positive_rate, until_promised)
    elif verdict.false_positive_cost is not None:
        spam = of_cost(verdict.false_positive_cost)
    else:
        assert verdict.spam is not None  # one of the three is a number
        spam = verdict.spam
    return Policy(verdict.unsure, spam, _reject(verdict.reject))


def _reject(threshold: float | FalsePositiveCost | FalsePositiveRate | None) -> Threshold | None:
    match threshold:
        case FalsePositiveCost(ratio):
            return of_cost(ratio)
        case FalsePositiveRate(rate):
            return Budget(rate)  # nothing is refused on a promise that is not kept yet
    return threshold


def rules(settings: Settings) -> Rules:
    """Which policy and which actions hold for whom."""
    found = [
        Rule.numbered(place, rule.match, _policy(rule.verdict), _actions(rule.actions))
        for place, rule in enumerate(settings.recipients)
    ]
    return Rules.build(policy(settings), _actions(settings.actions), found)


def _actions(chosen: ChosenActions) -> Actions:
    return Actions(chosen.ham, chosen.unsure, chosen.spam, chosen.reject)


def quarantine(settings: Settings) -> Quarantine:
    """Where messages wait."""
    return Quarantine(settings.quarantine_folder)


def model(settings: Settings, client: Redis) -> Model:
    """The model that the settings name."""
    return Model(
        client,
        settings.model.name,
        settings.model.ledger_days * _DAY,
        settings.model.half_life_days,
        first_scores=settings.memory.first_scores,
    )


def auto_model(settings: Settings, client: Redis, name: str | None = None) -> Layer:
    """The layer of a model, by default the one of the settings, that is learned without people."""
    return Layer(client, name or settings.model.name, settings.model.ledger_days * _DAY)


def autolearner(
    settings: Settings,
    people: filter_.Teachable,
    counts: filter_.CountSource,
    layer: filter_.AutoLayer,
    told: Callable[[str, str], object] = lambda _label, _outcome: None,
) -> filter_.Autolearner:
    """What learns without people; ``counts`` are those of ``people`` alone."""
    chosen = settings.autolearn
    assert chosen is not None
    params = autolearn.Params(chosen.ham, chosen.spam, chosen.lead)
    return filter_.Autolearner(people, layer, scorer(settings, counts), params, told)


def memory(
    settings: Settings, model: Model, dropped: Callable[[int], None] = lambda _: None
) -> checked_messages.Memory:
    """What is remembered of the model's checked messages; ``dropped`` is told how many are not."""
    chosen = settings.memory
    params = checked_messages.Params(chosen.hours * 3600, chosen.messages, chosen.explanations)
    return checked_messages.Memory(model.client, model.keys, params, dropped)


def classifier_params(settings: Settings) -> classifier.Params:
    """How features are weighed, and how much is learned."""
    return classifier.Params(
        event_models=event_models(settings.model.event_models),
        priors=priors.Params(settings.model.prior_messages),
        learning=lesson_weight.Params() if settings.model.learning_weights == "error" else None,
    )


def event_models(chosen: ChosenModels) -> classifier.EventModels:
    """The event models that the settings name."""
    return classifier.EventModels(
        multinomial=_multinomial(chosen.multinomial) if chosen.multinomial else None,
        bernoulli=bernoulli.Params(**chosen.bernoulli.model_dump()) if chosen.bernoulli else None,
        categorical=categorical.Params(**chosen.categorical.model_dump()) if chosen.categorical else None,
        gaussian=gaussian.Params(**chosen.gaussian.model_dump()) if chosen.gaussian else None,
    )


def _multinomial(chosen: MultinomialSettings) -> multinomial.Params:
    smoothing: multinomial.Smoothing
    if chosen.m is not None:
        smoothing = multinomial.MEstimate(chosen.m)
    else:
        assert chosen.alpha is not None
        smoothing = multinomial.Lidstone(chosen.alpha)
    return multinomial.Params(smoothing, chosen.complement)


def spam_filter(  # noqa: PLR0913 - most have a default, and are named where they are given
    settings: Settings,
    model: filter_.Teachable,
    counts: filter_.CountSource,
    observer: filter_.Observer | None = None,
    *,
    make_tokenizer: type[tokenizer.Tokenizer] = tokenizer.Tokenizer,
    memory: filter_.Recalling | None = None,
    auto: filter_.AutoLayer | None = None,
    line: filter_.Line | None = None,
) -> filter_.Filter:
    """The filter over a model; ``counts`` is the mirror or the model itself, ``auto`` the layer beside it."""
    return filter_.Filter(
        tokenizer=make_tokenizer(tokenizer_params(settings)),
        classifier=classifier.Classifier(classifier_params(settings)),
        calibration=calibration.Calibration(),
        model=model,
        counts=Layered(counts, auto.counts) if auto else counts,
        params=filter_params(settings),
        observer=observer,
        memory=memory,
        auto=auto,
        line=line,
    )


def tokenizer_params(settings: Settings) -> tokenizer.Params:
    """What is made of a message."""
    chosen = settings.model.event_models
    return tokenizer.Params(
        max_tokens=settings.limits.max_tokens,
        attributes=chosen.categorical is not None,
        numbers=chosen.gaussian is not None,
    )


def scorer(settings: Settings, counts: filter_.CountSource) -> Scorer:
    """The filter's scores over other counts."""
    chosen = classifier.Classifier(classifier_params(settings))
    return Scorer(chosen, calibration.Calibration(), counts, filter_params(settings))


def filter_params(settings: Settings) -> filter_.Params:
    """The policy, and how much must be known before it holds."""
    others = tuple(rule.treatment.policy for rule in rules(settings).rules)
    return filter_.Params(policy(settings), settings.model.min_learned.model_dump(), others)


def next_hop(settings: Settings) -> NextHop:
    """Where mail goes next."""
    hop = settings.relay.next_hop
    if isinstance(hop, SmtpHop):
        from nbstream.relay import smtp_connections  # noqa: PLC0415  # see above
        from nbstream.relay.smtp_next_hop import SmtpNextHop  # noqa: PLC0415  # see above

        params = smtp_connections.Params(
            connect_timeout_seconds=settings.relay.connect_timeout_seconds,
            reply_timeout_seconds=settings.relay.reply_timeout_seconds,
            max_connections=settings.relay.max_connections,
        )
        return SmtpNextHop(hop.address.host, hop.address.port, params)
    assert settings.maildir is not None
    return MaildirNextHop(settings.maildir)


def smtp_params(listener: SmtpSettings) -> SmtpParams:
    """The limits of the SMTP door."""
    from nbstream.listeners.smtp.listener import Params as SmtpParams  # noqa: PLC0415  # see above

    return SmtpParams(
        hostname=listener.hostname or socket.getfqdn(),
        max_message_bytes=listener.max_message_bytes,
        idle_timeout_seconds=listener.idle_timeout_seconds,
        max_connections=listener.max_connections,
        max_bytes_in_flight=listener.max_bytes_in_flight,
        max_recipients=listener.max_recipients,
    )


def delivery_params(settings: Settings) -> delivery.Params:
    """How a message is marked, and what a failed check does."""
    from nbstream.listeners.smtp import delivery  # noqa: PLC0415  # see above

    return delivery.Params(
        model=settings.model.name,
        rules=rules(settings),
        limits=limits(settings),
        pass_on_failure=settings.on_filter_failure == "pass",
        clues=settings.headers.clues,
    )


def feedback_params(settings: Settings) -> feedback.Params:
    """Who may teach by mail."""
    from nbstream.listeners.smtp import feedback  # noqa: PLC0415  # see above

    return feedback.Params(
        spam_address=settings.feedback.spam_address,
        ham_address=settings.feedback.ham_address,
        allow_from=tuple(ipaddress.ip_network(network) for network in settings.feedback.allow_from),
        limits=limits(settings),
    )


@dataclass(frozen=True, slots=True)
class Store:
    """The way to Redis: a client to work with, one for the mirror, and the embedded server where there is one."""

    client: Redis
    follower: Redis
    embedded: EmbeddedRedis | None = None


@asynccontextmanager
async def store(settings: Settings) -> AsyncIterator[Store]:
    """Two clients, and the use of the embedded server; all given back at the end.

    No server is contacted or started here. Raises ``ConfigError`` for a state folder that cannot be used.
    """
    async with AsyncExitStack() as stack:
        embedded, url = None, settings.redis.url.get_secret_value()
        if settings.redis.embedded:
            embedded = EmbeddedRedis(settings.state_dir)
            stack.push_async_callback(embedded.release)
            url = f"unix://{quote(await embedded.join())}"
        password = settings.redis.password.get_secret_value() if settings.redis.password else None
        params = connection.Params(url, password, settings.redis.timeout_seconds, settings.model.name)
        client, follower = connection.open_client(params), connection.open_client(params, retries=0)
        stack.push_async_callback(client.aclose)
        stack.push_async_callback(follower.aclose)
        yield Store(client, follower, embedded)


@asynccontextmanager
async def one_shot(settings: Settings, *, sign: bool = False) -> AsyncIterator[tuple[filter_.Filter, Model]]:
    """A filter that reads Redis itself, for commands that look at few messages; ``sign`` a model that is new.

    Raises ``ConfigError``, ``StoreIncompatible`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with store(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        found = model(settings, opened.client)
        await found.open(sign=sign)
        auto = None
        if settings.autolearn:
            layer = auto_model(settings, opened.client)
            await layer.open(sign=sign)
            auto = filter_.AutoLayer(layer, layer)
        yield spam_filter(settings, found, found, memory=memory(settings, found), auto=auto), found


@asynccontextmanager
async def auto_layer(settings: Settings) -> AsyncIterator[Layer]:
    """The layer that is learned without people, in use or not, and whatever wrote it.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with store(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        yield auto_model(settings, opened.client)


@asynccontextmanager
async def temporary(settings: Settings, purpose: str) -> AsyncIterator[Model]:
    """A new model in the Redis of ``settings``, named after its ``purpose`` and removed at the end.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with store(settings) as opened:
        if opened.embedded:
            await opened.embedded.ensure_running()
        ledger_seconds, first_scores = settings.model.ledger_days * _DAY, settings.memory.first_scores
        async with temporary_model(opened.client, purpose, ledger_seconds, first_scores) as found:
            yield found
