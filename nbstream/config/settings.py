"""The settings, key by key as in the file: the type, the default and the limits of each.

Rules: the models are frozen, refuse unknown keys and convert nothing silently (``"5"`` is no number); defaults
pass the same checks as values from the file. A check over two keys belongs to the later one, so that the error
names the key to change. ``config/nbstream.yaml`` says what each key is for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    Strict,
    ValidationInfo,
    field_validator,
)

from nbstream.config import inheritance
from nbstream.config.actions import Actions, Quarantine
from nbstream.config.event_models import EventModels
from nbstream.config.inheritance import located
from nbstream.config.listeners import Listeners, Networks
from nbstream.config.section import ByteCount, Count, FilePath, PasswordFile, Probability, Seconds, Section
from nbstream.config.values import (
    EMBEDDED,
    MaildirHop,
    SecretFile,
    SmtpHop,
    has_password,
    read_mail_address,
    read_model_name,
    read_network,
    read_next_hop,
    read_pattern,
    read_redis_url,
    read_workers,
    without_secrets,
)
from nbstream.config.verdict import Verdict
from nbstream.policy.patterns import Pattern

MailAddress = Annotated[str, BeforeValidator(read_mail_address)]
_ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - recognised here, not listened on


class Redis(Section):
    """Where the counts live; ``url`` is hidden as a whole, since it may carry a password."""

    url: Annotated[SecretStr, BeforeValidator(read_redis_url)] = SecretStr(EMBEDDED)
    password_file: PasswordFile | None = None
    timeout_seconds: Seconds = 5

    @field_validator("password_file")
    @classmethod
    def _one_password(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        url = info.data.get("url")
        if value and url and url.get_secret_value() == EMBEDDED:
            raise ValueError("must be left out: the embedded Redis has no password")
        if value and url and has_password(url):
            raise ValueError("must be left out: redis.url already carries a password")
        return value

    @property
    def embedded(self) -> bool:
        """True when the daemon runs its own Redis."""
        return self.url.get_secret_value() == EMBEDDED

    @property
    def place(self) -> str:
        """``embedded``, or the URL without user, password and options: fit for logs."""
        return without_secrets(self.url)

    @property
    def password(self) -> SecretStr | None:
        """The secret of ``password_file``; None also when the URL carries one."""
        return self.password_file.secret if self.password_file else None


class Relay(Section):
    """Where mail goes next, and how long its answers may take."""

    next_hop: Annotated[MaildirHop | SmtpHop, BeforeValidator(read_next_hop)] = MaildirHop()
    connect_timeout_seconds: Seconds = 10
    reply_timeout_seconds: Seconds = 300
    max_connections: Count = 200


class MinLearned(Section):
    """Messages each class must have before a verdict other than unsure."""

    spam: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    ham: Annotated[int, Field(ge=0, le=1_000_000)] = 50


class Model(Section):
    """The counts in use and the arithmetic on them."""

    name: Annotated[str, BeforeValidator(read_model_name)] = "default"
    min_learned: MinLearned = MinLearned()
    ledger_days: Annotated[int, Field(ge=1, le=36500)] = 365
    max_tokens: Annotated[int, Field(ge=10_000, le=1_000_000_000)] | None = None
    half_life_days: Annotated[float, Field(ge=1, le=36500, allow_inf_nan=False)] | None = None
    event_models: EventModels = EventModels()
    prior_messages: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 1
    learning_weights: Literal["error", "full"] = "error"


class Memory(Section):
    """The checked messages that are remembered, so that feedback needs no more than an id; 0 messages: none.

    ``explanations``: and why each was called what it was called.
    """

    hours: Annotated[int, Field(ge=1, le=8760)] = 72
    messages: Annotated[int, Field(ge=0, le=10_000_000)] = 20_000
    first_scores: Annotated[int, Field(ge=1000, le=10_000_000)] = 50_000
    explanations: bool = True


class Limits(Section):
    """How much work one message may cause."""

    look_bytes: ByteCount = 1 << 20
    max_tokens: Count = 2000
    max_parts: Count = 200
    max_depth: Annotated[int, Field(ge=1, le=100)] = 20


class Autolearn(Section):
    """Learning without people what checks are sure of, in a layer of its own."""

    ham: Probability = 0.001
    spam: Probability = 0.999
    lead: Annotated[int, Field(ge=1, le=1_000_000)] = 20


class Headers(Section):
    """What the header of a delivered message says beside the verdict."""

    clues: bool = True


class Feedback(Section):
    """The two addresses that take corrections by mail, and the networks they are taken from."""

    spam_address: MailAddress = "spam@nbstream.invalid"
    ham_address: MailAddress = "ham@nbstream.invalid"
    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))

    @field_validator("ham_address")
    @classmethod
    def _two_addresses(cls, value: str, info: ValidationInfo) -> str:
        if value.lower() == info.data.get("spam_address", "").lower():
            raise ValueError("must differ from feedback.spam_address (upper and lower case are the same)")
        return value


class Recipients(Section):
    """What holds for the recipients that a pattern matches; what is not given is inherited from the top."""

    match: Annotated[Pattern, BeforeValidator(read_pattern)]
    verdict: Verdict = Verdict()
    actions: Actions = Actions()


class Log(Section):
    """Format and level of the log; ``auto`` is text on a terminal, JSON otherwise."""

    format: Literal["auto", "text", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section):
    """The whole configuration; ``Settings()`` is the defaults."""

    state_dir: FilePath = Path("~/.local/state/nbstream")
    workers: Annotated[int | Literal["auto"], BeforeValidator(read_workers)] = 1
    redis: Redis = Redis()
    listeners: Listeners = Listeners()
    relay: Relay = Relay()
    on_filter_failure: Literal["pass", "defer"] = "pass"
    model: Model = Model()
    memory: Memory = Memory()
    limits: Limits = Limits()
    verdict: Verdict = Verdict()
    autolearn: Autolearn | None = None
    headers: Headers = Headers()
    feedback: Feedback = Feedback()
    actions: Actions = Actions()
    recipients: Annotated[tuple[Recipients, ...], Strict(False)] = ()
    quarantine: Quarantine = Quarantine()
    log: Log = Log()
    drain_seconds: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30

    @field_validator("relay")
    @classmethod
    def _not_in_a_circle(cls, value: Relay, info: ValidationInfo) -> Relay:
        listeners = info.data.get("listeners")
        own = listeners.smtp.listen if listeners and listeners.smtp else None
        hop = value.next_hop.address if isinstance(value.next_hop, SmtpHop) else None
        if own and hop and own.port == hop.port and hop.loopback and (own.loopback or own.host in _ANY_HOST):
            raise ValueError("next_hop must be another server: listeners.smtp.listen is this daemon's own")
        return value

    @field_validator("verdict")
    @classmethod
    def _enough_first_scores(cls, value: Verdict, info: ValidationInfo) -> Verdict:
        found = inheritance.budgets(value, (), info.data.get("memory"))
        if found:
            raise located(found)
        return value

    @field_validator("autolearn")
    @classmethod
    def _only_what_is_sure(cls, value: Autolearn | None, info: ValidationInfo) -> Autolearn | None:
        verdict, model = info.data.get("verdict"), info.data.get("model")
        if value and verdict and value.ham >= verdict.unsure:
            raise ValueError(f"must have a ham below verdict.unsure ({verdict.unsure})")
        if value and verdict and value.spam < (verdict.fixed or verdict.unsure):
            raise ValueError(f"must have a spam of at least verdict.spam ({verdict.fixed or verdict.unsure})")
        if value and model and model.event_models.bernoulli:
            raise ValueError("must be null where model.event_models.bernoulli is chosen: it has one vocabulary")
        return value

    @field_validator("actions")
    @classmethod
    def _no_lesson(cls, value: Actions, info: ValidationInfo) -> Actions:
        found = inheritance.lessons(value, (), info.data.get("feedback"))
        if found:
            raise located(found)
        return value

    @field_validator("recipients", mode="before")
    @classmethod
    def _inherit(cls, value: object, info: ValidationInfo) -> object:
        return inheritance.inherited(value, {key: info.data.get(key) for key in ("verdict", "actions")})

    @field_validator("recipients")
    @classmethod
    def _each_has_its_own(cls, value: tuple[Recipients, ...], info: ValidationInfo) -> tuple[Recipients, ...]:
        found = inheritance.problems(value, *(info.data.get(key) for key in ("verdict", "feedback", "memory")))
        if found:
            raise located(found)
        return value

    @field_validator("quarantine")
    @classmethod
    def _no_mailbox(cls, value: Quarantine, info: ValidationInfo) -> Quarantine:
        relay, state = info.data.get("relay"), info.data.get("state_dir")
        if relay is None or state is None or isinstance(relay.next_hop, SmtpHop):
            return value
        if value.folder(state) == (relay.next_hop.path or state / "Maildir"):
            found = str(value.path) if value.path else None
            raise located([(("path",), "must be another folder than the Maildir of relay.next_hop", found)])
        return value

    _source: Path | None = PrivateAttr(default=None)

    @property
    def source(self) -> Path | None:
        """The file these settings were read from; None for the defaults."""
        return self._source

    @property
    def maildir(self) -> Path | None:
        """The folder that mail is delivered into; None when the next hop is a server."""
        hop = self.relay.next_hop
        return None if isinstance(hop, SmtpHop) else hop.path or self.state_dir / "Maildir"

    @property
    def quarantine_folder(self) -> Path:
        """The Maildir of the quarantine."""
        return self.quarantine.folder(self.state_dir)

    def with_source(self, source: Path) -> Settings:
        """The same settings, read from that file."""
        settings = self.model_copy()
        settings._source = source
        return settings
