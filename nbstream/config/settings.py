"""The settings, key by key as in the file: the type, the default and the limits of each.

Rules: the models are frozen, refuse unknown keys and convert nothing silently (``"5"`` is no number). Defaults
pass the same checks as values from the file. A check over two keys belongs to the later one: the error names this
key. The text below each key says what the key is for: the reference of the settings and the manual page
nbstream.yaml(5) are made of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, Strict, ValidationInfo, field_validator

from nbstream.config import policy as inheritance
from nbstream.config.listeners import ListenersSettings
from nbstream.config.policy import (
    ActionsSettings,
    FeedbackSettings,
    HeadersSettings,
    RecipientRuleSettings,
    VerdictSettings,
    located_error,
)
from nbstream.delivery.settings import QuarantineSettings, RelaySettings, ServerNextHopSetting
from nbstream.engine.choice import EngineChoice
from nbstream.settings.values import ByteCount, Count, FilePath, Probability, Section, read_host_name
from nbstream.store.settings import RedisSettings


class MemorySettings(Section):
    """What is remembered of checked messages, for feedback by id and for explanations."""

    hours: Annotated[int, Field(ge=1, le=8760)] = 72
    """How long a checked message is remembered."""

    messages: Annotated[int, Field(ge=0, le=10_000_000)] = 20_000
    """How many checked messages are remembered; the oldest are dropped first. 0 remembers none. Each takes about 2
    kB of Redis.
    """

    explanations: bool = True
    """Remember also why each checked message got its verdict, for ``nbstream explain ID``. Each explanation takes
    about 2 kB of Redis.
    """

    envelope: bool | None = None
    """Remember also the sender, the recipients (up to ten of the last check and twenty of checks before it), the
    subject and the action of each checked message, for the list of messages on the page. ``null`` is ``true``
    where ``listeners.http`` is on, and ``false`` elsewhere. With its indices it takes about 1.4 kB of Redis, and
    0.6 kB where the page lists messages without envelopes.
    """


_AUTHSERV_ID = re.compile(r"[^\s\x00-\x1f\x7f;()\"\\=/@,<>\[\]]{1,253}")


def read_authserv_id(value: object) -> str:
    """Read the identifier of a server in Authentication-Results (RFC 8601, section 2.5), in lower case."""
    if not isinstance(value, str) or _AUTHSERV_ID.fullmatch(value) is None:
        raise ValueError("must be the name that a server writes first in Authentication-Results: mx.example.org")
    return value.lower()


AuthservIds = Annotated[
    tuple[Annotated[str, BeforeValidator(read_authserv_id)], ...], Strict(False), Field(max_length=100)
]


_LEARNED_BYTES = 16 << 20  # of the spool: two segments of what was learned and is not removed yet


class MinLearnedSettings(Section):
    """The messages that each class must have before there is a verdict other than unsure."""

    spam: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Until this many spam messages are learned, every verdict is unsure, with the reason ``learning N/M``."""

    ham: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Until this many ham messages are learned, every verdict is unsure, with the reason ``learning N/M``."""


_MODEL_NAME = re.compile(r"[a-z0-9._-]+")


def read_model_name(value: object) -> str:
    """Read a text of the characters ``a-z0-9._-``. It becomes a part of the Redis keys."""
    if not isinstance(value, str) or _MODEL_NAME.fullmatch(value) is None:
        raise ValueError("must be text of the characters a-z 0-9 . _ - (a number needs quotes)")
    return value


class ModelSettings(Section):
    """The model that is used, and how it computes scores."""

    name: Annotated[str, BeforeValidator(read_model_name)] = "default"
    """The name of the model, which is part of its Redis keys. Another name is another model, which starts from
    nothing; the old one stays in Redis.
    """

    min_learned: MinLearnedSettings = MinLearnedSettings()
    """The messages of each class that a model must have learned before a verdict other than unsure."""

    ledger_days: Annotated[int, Field(ge=1, le=36500)] = 365
    """How long the model remembers what a message was learned as. After that the message can no longer be
    unlearned or corrected, and learning it again counts it twice.
    """

    max_tokens: Annotated[int, Field(ge=10_000, le=1_000_000_000)] | None = None
    """The number of distinct tokens that are kept; ``null`` is no limit. At 95 % of the limit a running daemon
    forgets tokens until 85 % are left: first the tokens that no message learned within ``ledger_days`` holds, then
    those that were learned least. A million tokens take 80 to 170 MB of Redis and 150 MB of each worker.
    """

    half_life_days: Annotated[float, Field(ge=1, le=36500, allow_inf_nan=False)] | None = None
    """After this many days a lesson counts half; ``null`` lets it count in full for ever. Choose it before
    teaching, because a model keeps the half-life that it was begun with. To change it, run ``nbstream export``,
    set another ``model.name`` and run ``nbstream import``.
    """


class LimitsSettings(Section):
    """The limits of a message, and of what each listener has in hand."""

    max_message_bytes: ByteCount = 50 << 20
    """A larger message is refused for good (552, 413). It should be no less than what the mail server itself
    accepts. It holds for a compressed message once it is unpacked.
    """

    max_bytes_in_flight: ByteCount = 256 << 20
    """The memory limit of each listener for the messages in hand; each message counts twice, because it is copied
    while it is worked on. Mail beyond that is put off (452, 503), but never a message that is alone. It must be at
    least ``max_message_bytes``.
    """

    max_connections: Count = 200
    """The connections of each listener, and those to the next hop. A further client is put off (421, 503), and a
    further message waits for a connection to the next hop.
    """

    look_bytes: ByteCount = 1 << 20
    """The bytes of a message that are looked at, from its start. Of a longer message the end is looked at too: an
    eighth of this.
    """

    @field_validator("max_bytes_in_flight")
    @classmethod
    def _room_for_one(cls, value: int, info: ValidationInfo) -> int:
        # With fewer bytes a message of the permitted size would be put off for ever instead of being refused.
        largest = info.data.get("max_message_bytes", 0)
        if value < largest:
            raise ValueError(f"must be at least limits.max_message_bytes ({largest})")
        return value


class AutolearnSettings(Section):
    """Autolearning: learning without people what a check is sure of, in a layer of its own."""

    ham: Probability = 0.001
    """A message with at most this P(spam) is learned as ham. It must be below ``verdict.unsure``."""

    spam: Probability = 0.999
    """A message with at least this P(spam) is learned as spam. It must be at least ``verdict.spam``."""


class LogSettings(Section):
    """Format and level of the log."""

    format: Literal["auto", "text", "json"] = "auto"
    """``auto`` is text on a terminal and JSON otherwise."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""


MAX_WORKERS = 128


def read_workers(value: object) -> int | str:
    """Read ``auto``, or a whole number from 1 to 128."""
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS):
        return value
    raise ValueError(f"must be auto, or a whole number from 1 to {MAX_WORKERS}")


class Settings(Section):
    """The whole configuration. ``Settings()`` has the defaults."""

    state_dir: FilePath = Path("~/.local/state/nbstream")
    """The folder of everything that the daemon writes: the data of the embedded Redis, and Maildir and quarantine
    unless they are elsewhere. One daemon at a time uses it.
    """

    workers: Annotated[int | Literal["auto"], BeforeValidator(read_workers)] = 1
    """How many processes serve mail; ``auto`` starts one for each CPU that nbstream may use. With more than 1 a
    supervisor starts them and replaces those that die. All limits of connections, bytes and entries hold for each
    worker. With the native engine the workers share the counts in /dev/shm, else each has its own replica.
    """

    engine: EngineChoice = "auto"
    """What takes messages apart and scores them. ``native`` is compiled code, and ``python`` is slower; both give
    the same results to the last bit. ``auto`` is ``native`` where the native library was built and fits this
    version, else ``python``; ``nbstream status`` says which one runs. With ``native`` nothing starts where the
    library does not fit.
    """

    redis: RedisSettings = RedisSettings()
    """The Redis that holds the counts, which all daemons with the same model share."""

    hostname: Annotated[str, BeforeValidator(read_host_name)] | None = None
    """The name of this machine in the greeting of SMTP and LMTP. ``null`` is what the system says."""

    limits: LimitsSettings = LimitsSettings()
    """The limits of a message, and of what each listener has in hand."""

    listeners: ListenersSettings = ListenersSettings()
    """The listeners. ``null`` closes one."""

    relay: RelaySettings = RelaySettings()
    """Where a checked message goes. A message is accepted only after the next hop has accepted it, and the reply
    of the next hop is the reply to the client.
    """

    on_filter_failure: Literal["pass", "defer"] = "pass"
    """What happens to a message whose check fails. ``pass`` delivers it without a verdict in its header; forged
    verdicts are removed all the same. ``defer`` answers 451. A next hop that fails is another case: the client
    always gets 451, or the reply of the next hop.
    """

    model: ModelSettings = ModelSettings()
    """One named set of counts, and the arithmetic on them."""

    memory: MemorySettings = MemorySettings()
    """What is remembered of checked messages, which can then be taught by the id in their verdict header alone
    (inline forwards, abuse reports with the header only, ``nbstream learn spam --id ID``).
    """

    trusted_authserv_ids: AuthservIds = ()
    """The servers whose results of SPF, DKIM, DMARC and the like become tokens, by the name that each writes first
    in Authentication-Results (RFC 8601). Name your own server only, and only if it removes fields with its name
    from mail that it receives. A field counts where it stands above the topmost Received field.
    """

    own_received_fields: Annotated[int, Field(ge=0, le=20)] = 0
    """How many Received fields your own servers write above their Authentication-Results: those do not count as
    the topmost one. With Postfix and OpenDKIM it is 1. More than 0 is safe only where forged fields are removed.
    """

    verdict: VerdictSettings = VerdictSettings()
    """The probabilities of spam from which a message gets each verdict; below ``unsure`` it is ham. 0 < unsure <=
    spam < 1, and spam <= reject <= 1. The threshold for spam has one of three forms: ``spam``,
    ``false_positive_cost`` or ``max_false_positive_rate``. A form that is given replaces the default.
    """

    autolearn: AutolearnSettings | None = None
    """Learning without people: a message that a check is this sure of is learned too, with half the weight, in a
    layer of its own. A person's label takes that back, and ``nbstream forget-auto`` drops the whole layer. Use it
    only for a model whose mistakes people correct.
    """

    headers: HeadersSettings = HeadersSettings()
    """What the header of a delivered message says, what is removed from it, and how the Subject of spam begins."""

    feedback: FeedbackSettings = FeedbackSettings()
    """Corrections by mail: a message that is forwarded to one of two addresses is learned. Both addresses must
    reach the SMTP listener.
    """

    actions: ActionsSettings = ActionsSettings()
    """What happens to a message by its verdict. ``pass`` delivers it with the verdict in its header.
    ``quarantine`` keeps it for ``nbstream quarantine``. ``redirect:ADDRESS`` sends it to that address instead,
    through the next hop. ``reject`` refuses it for good (550). ``defer`` puts it off (451), and its sender tries
    again. Nothing is ever dropped silently.
    """

    recipients: Annotated[tuple[RecipientRuleSettings, ...], Strict(False)] = ()
    """Other thresholds and actions for some recipients: a list of rules. The first rule whose pattern matches the
    whole address holds. A file has at most 200 rules and at most 20 different budgets.
    """

    quarantine: QuarantineSettings = QuarantineSettings()
    """Where messages with the action ``quarantine`` wait."""

    log: LogSettings = LogSettings()
    """The log of the daemon, which has one line for each message."""

    drain_seconds: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30
    """How long a daemon that is stopped (SIGTERM) lets the work in hand finish, at all listeners together. 0 stops
    at once, and clients try again later.
    """

    @field_validator("listeners")
    @classmethod
    def _addresses_of_listeners_differ(cls, value: ListenersSettings) -> ListenersSettings:
        addresses = value.listen_addresses
        problems: list[inheritance.RuleProblem] = []
        for position, (name, address) in enumerate(addresses):
            others = (
                f"listeners.{other} ({taken})" for other, taken in addresses[:position] if taken.overlaps(address)
            )
            if other := next(others, None):
                problems.append(((name, "listen"), f"must be another address than that of {other}", str(address)))
        if problems:
            raise located_error(problems)
        return value

    @field_validator("listeners")
    @classmethod
    def _spool_has_room_for_one(cls, value: ListenersSettings, info: ValidationInfo) -> ListenersSettings:
        limits, dovecot = info.data.get("limits"), value.dovecot
        least = limits.max_message_bytes + _LEARNED_BYTES if limits else 0
        if dovecot and dovecot.spool_max_bytes < least:
            text = f"must be at least limits.max_message_bytes and 16 MiB more ({least})"
            raise located_error([(("dovecot", "spool_max_bytes"), text, dovecot.spool_max_bytes)])
        return value

    @field_validator("relay")
    @classmethod
    def _next_hop_is_another_server(cls, value: RelaySettings, info: ValidationInfo) -> RelaySettings:
        listeners = info.data.get("listeners")
        if listeners is None or not isinstance(value.next_hop, ServerNextHopSetting):
            return value
        for name, own in listeners.listen_addresses:
            if own.is_reached_at(value.next_hop.address):
                raise ValueError(f"next_hop must be another server: listeners.{name}.listen is this daemon's own")
        return value

    @field_validator("autolearn")
    @classmethod
    def _autolearn_beyond_thresholds(
        cls, value: AutolearnSettings | None, info: ValidationInfo
    ) -> AutolearnSettings | None:
        verdict = info.data.get("verdict")
        if value and verdict and value.ham >= verdict.unsure:
            raise ValueError(f"must have a ham below verdict.unsure ({verdict.unsure})")
        if value and verdict and value.spam < (verdict.fixed_spam_threshold or verdict.unsure):
            raise ValueError(
                f"must have a spam of at least verdict.spam ({verdict.fixed_spam_threshold or verdict.unsure})"
            )
        return value

    @field_validator("actions")
    @classmethod
    def _no_redirect_to_feedback(cls, value: ActionsSettings, info: ValidationInfo) -> ActionsSettings:
        problems = inheritance.feedback_action_problems(value, (), info.data.get("feedback"))
        if problems:
            raise located_error(problems)
        return value

    @field_validator("recipients", mode="before")
    @classmethod
    def _inherit_from_top(cls, value: object, info: ValidationInfo) -> object:
        return inheritance.inherit_settings(value, {key: info.data.get(key) for key in ("verdict", "actions")})

    @field_validator("recipients")
    @classmethod
    def _check_recipient_rules(
        cls, value: tuple[RecipientRuleSettings, ...], info: ValidationInfo
    ) -> tuple[RecipientRuleSettings, ...]:
        problems = inheritance.rule_problems(value, *(info.data.get(key) for key in ("verdict", "feedback")))
        if problems:
            raise located_error(problems)
        return value

    @field_validator("quarantine")
    @classmethod
    def _quarantine_is_not_maildir(cls, value: QuarantineSettings, info: ValidationInfo) -> QuarantineSettings:
        relay, state = info.data.get("relay"), info.data.get("state_dir")
        if relay is None or state is None or isinstance(relay.next_hop, ServerNextHopSetting):
            return value
        if value.folder(state) == (relay.next_hop.path or state / "Maildir"):
            path = str(value.path) if value.path else None
            raise located_error([(("path",), "must be another folder than the Maildir of relay.next_hop", path)])
        return value

    _source: Path | None = PrivateAttr(default=None)

    @property
    def warnings(self) -> list[str]:
        """One sentence for each thing that is allowed and may not be meant."""
        return [*self.redis.warnings, *self.listeners.warnings, *self.feedback.warnings, *self.headers.warnings]

    @property
    def source(self) -> Path | None:
        """The file that these settings were read from, or None for the defaults."""
        return self._source

    @property
    def remembers_rows(self) -> bool:
        """Whether the page, here or elsewhere, can list the checked messages."""
        return self.listeners.http is not None or self.remembers_envelopes

    @property
    def remembers_envelopes(self) -> bool:
        """Whether the envelopes of checked messages are remembered."""
        return self.listeners.http is not None if self.memory.envelope is None else self.memory.envelope

    @property
    def maildir_folder(self) -> Path | None:
        """The Maildir that mail is delivered into, or None where the next hop is a server."""
        next_hop = self.relay.next_hop
        return None if isinstance(next_hop, ServerNextHopSetting) else next_hop.path or self.state_dir / "Maildir"

    @property
    def quarantine_folder(self) -> Path:
        """The Maildir of the quarantine."""
        return self.quarantine.folder(self.state_dir)

    def with_source(self, source: Path) -> Settings:
        """Return the same settings with ``source`` as the file that they were read from."""
        settings = self.model_copy()
        settings._source = source
        return settings
