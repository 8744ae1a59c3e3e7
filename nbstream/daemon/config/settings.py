"""The settings, key by key as in the file: the type, the default and the limits of each.

Rules: the models are frozen, refuse unknown keys and convert nothing silently (``"5"`` is no number). Defaults
pass the same checks as values from the file. Only a section that is a default is made without them: else each
program would build the checks of every section when it starts. A check over two keys belongs to the later one: the
error names this key. The text below each key says what the key is for: the reference of the settings and the
manual page nbstream.yaml(5) are made of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, Strict, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.correspondents.settings import CorrespondentsSettings
from nbstream.delivery.settings import QuarantineSettings, RelaySettings, ServerNextHopSetting
from nbstream.listeners.dovecot import DovecotListenerSettings
from nbstream.listeners.http import HttpListenerSettings, MetricsListenerSettings
from nbstream.listeners.milter import MilterListenerSettings
from nbstream.listeners.smtp.settings import LmtpListenerSettings, SmtpListenerSettings
from nbstream.listeners.spamd import SpamdListenerSettings
from nbstream.listeners.stream import StreamListenerSettings
from nbstream.logs import LogSettings
from nbstream.policy import settings as inheritance
from nbstream.policy.own_models.settings import MAX_RULES, OwnModelRuleSettings, OwnModelsSettings
from nbstream.policy.settings import (
    ActionsSettings,
    AutolearnSettings,
    FeedbackSettings,
    HeadersSettings,
    ListsSettings,
    RecipientRuleSettings,
    VerdictSettings,
    located_error,
)
from nbstream.policy.verdict import ActionKind, Verdict
from nbstream.server.limits import LimitsSettings
from nbstream.settings.values import AuthservIds, FilePath, Section, read_host_name
from nbstream.store.settings import MemorySettings, ModelSettings, RedisSettings
from nbstream.web.users.settings import DigestSettings, UserPageSettings

_KEPT_SHARE = 2 / 3  # of memory.hours: people have days to move a message, and it is still remembered then


class ListenersSettings(Section):
    """The listeners. None stands for one that is closed."""

    smtp: SmtpListenerSettings | None = SmtpListenerSettings.model_construct()
    """The mail server passes each message on to this listener, and gets the answer of the next hop back."""

    http: HttpListenerSettings | None = HttpListenerSettings.model_construct()
    """Our own API (``/v1/``), rspamd's (``/checkv2``, ``/learnspam`` and others), metrics (``/metrics``),
    health (``/healthz``, ``/readyz``), and the web interface (``/ui/``, ``/my/``).
    """

    metrics: MetricsListenerSettings | None = None
    """``/metrics`` alone, without a password, for a scraper on another machine."""

    spamd: SpamdListenerSettings | None = None
    """The protocol of SpamAssassin's server, for spamc, Exim's ``spam =`` and others."""

    lmtp: LmtpListenerSettings | None = None
    """Mail by LMTP, in place of SMTP: each recipient of a message gets an answer of its own."""

    milter: MilterListenerSettings | None = None
    """The milter protocol, for Postfix (``smtpd_milters``, ``non_smtpd_milters``), Sendmail and others."""

    stream: StreamListenerSettings | None = None
    """Programs add entries to the stream ``nbstream:{MODEL}:in`` in Redis and read the answers in
    ``nbstream:{MODEL}:out``.
    """

    dovecot: DovecotListenerSettings | None = None
    """Dovecot's Sieve scripts hand over what people move to Junk, and out of it."""

    @property
    def warnings(self) -> list[str]:
        """One sentence for each certificate that nobody is offered."""
        return [
            f"listeners.{name}.tls is off, so that nobody is offered the certificate in tls_cert_file: with may, "
            "clients can use it"
            for name, listener in (("smtp", self.smtp), ("lmtp", self.lmtp))
            if listener and listener.tls_cert_file and listener.tls == "off"
        ]

    @property
    def listen_addresses(self) -> list[tuple[str, TcpAddress | UnixAddress]]:
        """The names of the listeners that have an address and are not closed, with their addresses."""
        listeners = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [(name, listener.listen) for name, listener in listeners if hasattr(listener, "listen")]


MAX_WORKERS = 128


def read_workers(value: object) -> int | str:
    """Read ``auto``, or a whole number from 1 to 128."""
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS):
        return value
    raise ValueError(f"must be auto, or a whole number from 1 to {MAX_WORKERS}")


class Settings(Section):
    """The whole configuration. ``Settings()`` has the defaults."""

    state_dir: FilePath = Path("~/.local/state/nbstream")
    """The folder of all that the daemon writes, unless a setting says otherwise. One daemon at a time uses it."""

    workers: Annotated[int | Literal["auto"], BeforeValidator(read_workers)] = 1
    """How many processes serve mail; ``auto`` starts one for each CPU. All limits hold for each worker."""

    redis: RedisSettings = RedisSettings.model_construct()
    """The Redis that holds the counts, which all daemons with the same model share."""

    hostname: Annotated[str, BeforeValidator(read_host_name)] | None = None
    """The name in the greeting of SMTP and LMTP. ``null`` is what the system says."""

    limits: LimitsSettings = LimitsSettings.model_construct()
    """The limits of a message, and of what each listener has in hand."""

    listeners: ListenersSettings = ListenersSettings.model_construct()
    """The listeners. ``null`` closes one."""

    relay: RelaySettings = RelaySettings.model_construct()
    """Where a checked message goes. The reply of the next hop is the reply to the client."""

    on_filter_failure: Literal["pass", "defer"] = "pass"
    """What happens to a message whose check fails. ``pass`` delivers it without a verdict, ``defer`` answers
    451.
    """

    model: ModelSettings = ModelSettings.model_construct()
    """One named set of counts, and the arithmetic on them."""

    models: Annotated[tuple[OwnModelRuleSettings, ...], Strict(False), Field(max_length=MAX_RULES)] = ()
    """Own models above the common one: the first rule whose pattern matches the recipient holds."""

    own_models: OwnModelsSettings = OwnModelsSettings.model_construct()
    """What holds for all own models."""

    memory: MemorySettings = MemorySettings.model_construct()
    """What is remembered of checked messages, which can then be taught by their id alone."""

    trusted_authserv_ids: AuthservIds = ()
    """The servers whose results of SPF, DKIM and DMARC become tokens, by their names in Authentication-Results.
    Name only servers of your own that remove fields with their name from incoming mail.
    """

    own_received_fields: Annotated[int, Field(ge=0, le=20)] = 0
    """How many Received fields your own servers write above their Authentication-Results: 1 with Postfix and
    OpenDKIM. More than 0 is safe only where forged fields are removed.
    """

    verdict: VerdictSettings = VerdictSettings.model_construct()
    """The probabilities of spam from which a message gets each verdict: 0 < unsure <= spam < 1, and spam <=
    reject <= 1.
    """

    autolearn: AutolearnSettings | None = AutolearnSettings.model_construct()
    """Learning without people: a message that a check is this sure of is learned too, with half the weight.
    ``nbstream forget --auto`` drops all of it.
    """

    headers: HeadersSettings = HeadersSettings.model_construct()
    """The header of a delivered message."""

    feedback: FeedbackSettings = FeedbackSettings.model_construct()
    """Corrections by mail: a message that is forwarded to one of these addresses is learned."""

    actions: ActionsSettings = ActionsSettings.model_construct()
    """What happens to a message by its verdict. ``quarantine`` keeps it for ``nbstream quarantine``,
    ``redirect:ADDRESS`` sends it there instead, ``reject`` refuses it for good (550), ``defer`` puts it off
    (451).
    """

    recipients: Annotated[tuple[RecipientRuleSettings, ...], Strict(False)] = ()
    """Other thresholds and actions for some recipients: the first rule whose pattern matches the whole address
    holds.
    """

    lists: ListsSettings = ListsSettings.model_construct()
    """The senders that always or never pass. ``nbstream list`` and the page change further lists."""

    correspondents: CorrespondentsSettings | None = None
    """Answers to a message of ours, and senders that a user of ours wrote to, become tokens whose weight is
    learned.
    """

    quarantine: QuarantineSettings = QuarantineSettings.model_construct()
    """Where messages with the action ``quarantine`` wait."""

    digest: DigestSettings | None = None
    """A mail to each user about what was quarantined for them, with links that release it."""

    user_page: UserPageSettings | None = None
    """The self-service page (``/my/``), where users see their own mail alone."""

    log: LogSettings = LogSettings.model_construct()
    """The log of the daemon, which has one line for each message."""

    drain_seconds: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30
    """How long a daemon that is stopped (SIGTERM) lets the work in hand finish."""

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

    @field_validator("relay")
    @classmethod
    def _next_hop_is_another_place(cls, value: RelaySettings, info: ValidationInfo) -> RelaySettings:
        listeners, state = info.data.get("listeners"), info.data.get("state_dir")
        if not isinstance(value.next_hop, ServerNextHopSetting):
            if state and value.next_hop.path == state / "Quarantine":
                raise ValueError("next_hop must be another folder than the quarantine")
            return value
        for name, own in listeners.listen_addresses if listeners else ():
            if own.is_reached_at(value.next_hop.address):
                raise ValueError(f"next_hop must be another server: listeners.{name}.listen is this daemon's own")
        return value

    @field_validator("autolearn")
    @classmethod
    def _autolearn_beyond_thresholds(
        cls, value: AutolearnSettings | None, info: ValidationInfo
    ) -> AutolearnSettings | None:
        verdict = info.data.get("verdict")
        if value and verdict:
            return value.beyond(verdict.unsure, verdict.spam)
        return value

    @field_validator("feedback")
    @classmethod
    def _addresses_of_kinds(cls, value: FeedbackSettings, info: ValidationInfo) -> FeedbackSettings:
        model = info.data.get("model")
        text = "must be one of model.classes, and neither ham nor spam"
        problems: list[inheritance.RuleProblem] = [
            (("kinds", kind), text, kind)
            for kind in value.kinds
            if model and (kind == "ham" or kind not in model.kinds)
        ]
        if problems:
            raise located_error(problems)
        return value

    @field_validator("actions")
    @classmethod
    def _no_redirect_to_feedback(cls, value: ActionsSettings, info: ValidationInfo) -> ActionsSettings:
        problems = inheritance.redirect_problems(value, (), info.data.get("feedback"))
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

    _source: Path | None = PrivateAttr(default=None)

    @property
    def warnings(self) -> list[str]:
        """One sentence for each thing that is allowed and may not be meant."""
        warnings = [
            *self.listeners.warnings,
            *self.feedback.warnings,
            *(self.digest.warnings if self.digest else ()),
        ]
        all_actions = (self.actions, *(rule.actions for rule in self.recipients))
        if self.digest and not any(
            actions.for_verdict(verdict).kind is ActionKind.QUARANTINE
            for actions in all_actions
            for verdict in Verdict
        ):
            warnings.append("digest: nobody gets one, because no action is quarantine")
        if self.digest and self.listeners.http is None:
            warnings.append("digest: its links lead to listeners.http of this daemon, which is closed")
        if self.user_page and self.listeners.http is None:
            warnings.append("user_page: nobody can reach it, because listeners.http of this daemon is closed")
        elif self.user_page and not (self.remembers_envelopes and self.memory.messages):
            warnings.append(
                "user_page: users see only what waits in the quarantine, because no envelopes are remembered: "
                "their list of messages needs memory.messages above 0, and memory.envelope"
            )
        if self.model.private_tokens and self.memory.envelope is None and self.remembers_envelopes:
            warnings.append(
                "model.private_tokens: sender, recipients and subject of checked messages are stored as they are, "
                "for the page: memory.envelope: false stores none, true says that this is meant"
            )
        return warnings

    @property
    def source(self) -> Path | None:
        """The file that these settings were read from, or None for the defaults."""
        return self._source

    @property
    def remembers_envelopes(self) -> bool:
        """Whether the envelopes of checked messages are remembered."""
        return self.listeners.http is not None if self.memory.envelope is None else self.memory.envelope

    @property
    def kept_seconds(self) -> float | None:
        """After how many seconds a message that nobody moved is implicit ham; None where none is.

        Mail that waits in the quarantine, or went to another address, was not left where it is by people: none is
        kept where unsure mail of any recipient does.
        """
        all_actions = (self.actions, *(rule.actions for rule in self.recipients))
        is_left = all(actions.unsure.kind is ActionKind.PASS for actions in all_actions)
        return _KEPT_SHARE * 3600.0 * self.memory.hours if self.autolearn and is_left else None

    @property
    def maildir_folder(self) -> Path | None:
        """The Maildir that mail is delivered into, or None where the next hop is a server."""
        next_hop = self.relay.next_hop
        return None if isinstance(next_hop, ServerNextHopSetting) else next_hop.path or self.state_dir / "Maildir"

    @property
    def quarantine_folder(self) -> Path:
        """The Maildir of the quarantine."""
        return self.state_dir / "Quarantine"

    def with_source(self, source: Path) -> Settings:
        """Return the same settings with ``source`` as the file that they were read from."""
        settings = self.model_copy()
        settings._source = source
        return settings
