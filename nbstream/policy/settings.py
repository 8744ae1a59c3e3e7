"""The settings of what happens to mail: thresholds, actions, recipient rules, feedback, fields, autolearning.

What a recipient rule inherits from the top of the file, and what no rule may contain.

Rules: the keys of a rule replace those of the top, one by one; the two forms of the threshold for spam count as
one key. Then the rule is checked like the top itself, with all that it has inherited.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from nbstream.mail.addresses import canonical_address
from nbstream.policy.address_patterns import MAX_ENTRIES, AddressPattern, SenderPattern
from nbstream.policy.verdict import SPAM_THRESHOLD, Action, ActionKind, Verdict
from nbstream.settings.values import Networks, Probability, Section, read_network

if TYPE_CHECKING:
    from typing import Self

    from pydantic import BaseModel

    from nbstream.settings.document import KeyPath


MAX_RECIPIENT_RULES = 200
"""The largest number of recipient rules."""

MAX_PREQUENTIAL_SCORES = 50_000
"""How many labelled messages of each class are kept with the P(spam) that they had before their label.

Each takes 150 bytes of Redis and 600 bytes of each worker. Budgets are computed from those of ham.
"""

MIN_FALSE_POSITIVE_RATE = 6e-5
"""The smallest budget: ``MAX_PREQUENTIAL_SCORES`` ham suffice to guarantee it, and for no smaller round one."""

MAX_FALSE_POSITIVE_RATE = 0.5
"""The largest budget."""

MAX_BUDGETS = 20
"""The largest number of different budgets: each takes up to a millisecond after a lesson."""

_ALTERNATIVE_KEYS = ({"spam", "max_false_positive_rate"},)

RuleProblem = tuple["KeyPath", str, object]
"""A key below the one that is checked, the text of the problem, and the value that is there."""


def _inherited_values(section: BaseModel, rule_section: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the file has at the top and the rule does not replace."""
    replaced = set(rule_section).union(*(keys for keys in _ALTERNATIVE_KEYS if keys & set(rule_section)))
    return {key: getattr(section, key) for key in section.model_fields_set - replaced}


def _inherit_into_rule(rule: dict[str, Any], top: Mapping[str, BaseModel | None]) -> dict[str, Any]:
    full = dict(rule)
    for name, section in top.items():
        rule_section = rule.get(name, {})
        if section is None:
            full.pop(name, None)
        elif isinstance(rule_section, dict):
            full[name] = {**_inherited_values(section, rule_section), **rule_section}
    return full


def inherit_settings(rules: object, top: Mapping[str, BaseModel | None]) -> object:
    """Return the rules as read from the file, with all that they inherit from the sections of ``top``.

    A section of the top that is refused itself is None here, and is left out of the rules: its own problem has to
    be solved first.
    """
    if not isinstance(rules, list | tuple) or len(rules) > MAX_RECIPIENT_RULES:
        return rules
    return [_inherit_into_rule(rule, top) if isinstance(rule, dict) else rule for rule in rules]


class VerdictSettings(Section):
    """The P(spam) from which a message gets each verdict.

    With ``max_false_positive_rate``, ``spam`` is the threshold while that rate is not guaranteed.
    """

    unsure: Probability = 0.5
    """From this P(spam) on a message is unsure; below it is ham."""

    spam: Probability = SPAM_THRESHOLD
    """From this P(spam) on a message is spam. Where one lost ham is as bad as C missed spam, C / (1 + C) costs
    least.
    """

    max_false_positive_rate: (
        Annotated[float, Field(ge=MIN_FALSE_POSITIVE_RATE, le=MAX_FALSE_POSITIVE_RATE, allow_inf_nan=False)] | None
    ) = None
    """A budget: 0.001 allows one ham in a thousand to be called spam. While too little ham is labelled (2,995
    messages for 0.001, 299 for 0.01), or errors alone, ``spam`` is the threshold.
    """

    reject: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """From this P(spam) on a message is refused; ``null`` never refuses. Do not set it behind Postfix's
    ``content_filter``.
    """

    @field_validator("spam")
    @classmethod
    def _spam_from_unsure(cls, value: float, info: ValidationInfo) -> float:
        unsure = info.data.get("unsure", 0.0)
        if value < unsure:
            raise ValueError(f"must be at least verdict.unsure ({unsure})")
        return value

    @field_validator("reject")
    @classmethod
    def _reject_from_spam(cls, value: float | None, info: ValidationInfo) -> float | None:
        spam = info.data.get("spam", 0.0)
        if value is not None and value < spam:
            raise ValueError(f"must be null or at least verdict.spam ({spam})")
        return value


def read_action(value: object) -> Action:
    """Read ``pass``, ``quarantine``, ``redirect:ADDRESS``, ``reject`` or ``defer``."""
    return value if isinstance(value, Action) else Action.parse(value if isinstance(value, str) else "")


MessageAction = Annotated[Action, BeforeValidator(read_action)]


class ActionsSettings(Section):
    """What happens to a message by its verdict."""

    ham: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is ham."""

    unsure: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is unsure."""

    spam: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is spam."""

    reject: MessageAction = Action(ActionKind.REJECT)
    """The action for a message whose verdict is reject, which only ``verdict.reject`` can give."""

    def for_verdict(self, verdict: Verdict) -> Action:
        """Return the action for a message with this verdict."""
        action: Action = getattr(self, verdict.value)
        return action


def read_address_pattern(value: object) -> AddressPattern:
    """Read a pattern of addresses such as ``*@example.org``."""
    pattern = (
        value if isinstance(value, AddressPattern) else AddressPattern(value if isinstance(value, str) else "")
    )
    if not pattern.matches_any_address:
        raise ValueError("must be a pattern that an address can match, such as *@example.org")
    return pattern


class RecipientRuleSettings(Section):
    """Thresholds and actions for the recipients that a pattern matches. Other keys are inherited from the top."""

    match: Annotated[AddressPattern, BeforeValidator(read_address_pattern)]
    """The pattern of the addresses for which the rule holds: ``*`` is any characters, ``?`` is one."""

    verdict: VerdictSettings = VerdictSettings.model_construct()
    """The thresholds for these recipients, with the keys of ``verdict``."""

    actions: ActionsSettings = ActionsSettings.model_construct()
    """The actions for these recipients, with the keys of ``actions``."""


_MAIL_ADDRESS = re.compile(r"[^\s<>@\x00-\x1f\x7f]{1,64}@[^\s<>@\x00-\x1f\x7f]{1,253}")


def read_mail_address(value: object) -> str:
    """Read a mail address such as ``spam@example.org``."""
    if not isinstance(value, str) or _MAIL_ADDRESS.fullmatch(value) is None:
        raise ValueError("must be a mail address such as spam@example.org")
    return value


MailAddress = Annotated[str, BeforeValidator(read_mail_address)]


def read_sender(value: object) -> str:
    """Read a sender; see ``SenderPattern``."""
    return SenderPattern.parse(value if isinstance(value, str) else "").text


Senders = Annotated[
    tuple[Annotated[str, BeforeValidator(read_sender)], ...], Strict(False), Field(max_length=MAX_ENTRIES)
]


class ListsSettings(Section):
    """The senders that always or never pass, for all recipients: at most 1000 of each."""

    allow: Senders = ()
    """Mail of these senders is ham, where the sender is proved. A sender is an address, a domain
    (``example.org``), all domains below one (``*.example.org``), or a network (``192.0.2.0/24``). One that is in
    ``lists.block`` too is blocked.
    """

    block: Senders = ()
    """Mail with one of these senders in From or the envelope is spam, also of one that is in ``lists.allow`` too.
    A user's list decides before these lists.
    """


class FeedbackSettings(Section):
    """The addresses that take corrections by mail, and the networks they are taken from."""

    spam_address: MailAddress = "spam@nbstream.invalid"
    """Mail to this address is learned as spam and never delivered."""

    ham_address: MailAddress = "ham@nbstream.invalid"
    """Mail to this address is learned as ham and never delivered."""

    kinds: dict[str, MailAddress] = Field(default={}, max_length=7)
    """An address for each of some kinds in ``model.classes``, as ``{KIND: ADDRESS}``."""

    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers may teach; all others are refused (550). Behind a mail server every client is
    that server.
    """

    check_forwarded: bool = False
    """Whether a client that the mail server names by XFORWARD must be in ``allow_from`` too."""

    @field_validator("ham_address")
    @classmethod
    def _two_addresses(cls, value: str, info: ValidationInfo) -> str:
        if canonical_address(value) == canonical_address(info.data.get("spam_address", "")):
            raise ValueError("must differ from feedback.spam_address (upper and lower case are the same)")
        return value

    @field_validator("kinds")
    @classmethod
    def _different_addresses(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        taken = [info.data.get(name, name) for name in ("spam_address", "ham_address")]
        addresses = [*taken, *value.values()]
        if len(set(map(canonical_address, addresses))) < len(addresses):
            raise ValueError("must have different addresses (upper and lower case are the same)")
        return value

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each class that has one."""
        return {
            "spam": self.spam_address,
            "ham": self.ham_address,
            **self.kinds,
        }

    @property
    def warnings(self) -> list[str]:
        """One sentence where everybody may teach."""
        everybody = [str(network) for network in self.allow_from if not network.prefixlen]
        return [f"feedback.allow_from: {network} is everybody: strangers may teach" for network in everybody]


def redirect_problems(
    actions: ActionsSettings, key: KeyPath, feedback: FeedbackSettings | None
) -> list[RuleProblem]:
    """Return the problems of the actions, below ``key``, that would redirect mail to a feedback address."""
    taught = set(map(canonical_address, feedback.addresses.values())) if feedback else set[str]()
    text = "must be redirected to no feedback address: it would be learned there"
    return [
        ((*key, name), text, str(action))
        for name, action in actions
        if canonical_address(action.address) in taught
    ]


def rule_problems(
    rules: Sequence[RecipientRuleSettings], verdict: VerdictSettings | None, feedback: FeedbackSettings | None
) -> list[RuleProblem]:
    """Return the problems of all rules together, under a top with these sections."""
    if len(rules) > MAX_RECIPIENT_RULES:
        return [((), f"must be a list of at most {MAX_RECIPIENT_RULES} rules", f"{len(rules)} rules")]
    rates = {verdict.max_false_positive_rate if verdict else None, None}
    text = f"must be one of the budgets above: no more than {MAX_BUDGETS} different ones can be kept"
    problems: list[RuleProblem] = []
    for position, rule in enumerate(rules):
        problems += redirect_problems(rule.actions, (position, "actions"), feedback)
        rate = rule.verdict.max_false_positive_rate
        if rate in rates or len(rates) <= MAX_BUDGETS:
            rates.add(rate)
        else:
            problems.append(((position, "verdict", "max_false_positive_rate"), text, rate))
    return problems


def located_error(problems: Sequence[RuleProblem]) -> ValidationError:
    """Return the error that names the key of each problem; a validator raises it."""
    details = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{error}", {"error": text}), loc=key, input=value)
        for key, text, value in problems
    ]
    return ValidationError.from_exception_data("Settings", details, hide_input=True)


# Header fields by name.

_MAX_NAME_CHARACTERS = 60

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9-]{{0,{_MAX_NAME_CHARACTERS - 1}}}")

# The registered fields of mail that carry addresses, its way, its content or its threads (RFC 5322, RFC 2045,
# RFC 2919, RFC 2369, RFC 6376, RFC 8601, RFC 8617), and what mailboxes go by.
_STRUCTURAL_NAMES = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "bcc", "date", "subject", "comments", "keywords", "mime-version"}
    | {"message-id", "in-reply-to", "references", "return-path", "received", "received-spf", "delivered-to"}
    | {"authentication-results", "autocrypt", "auto-submitted", "precedence", "encrypted", "original-recipient"}
    | {"disposition-notification-to", "errors-to", "envelope-to", "status", "x-status", "x-original-to", "x-uidl"}
    | {"x-loop"}
)
_STRUCTURAL_PREFIXES = ("resent-", "content-", "list-", "dkim-", "domainkey-", "arc-", "original-", "x-mozilla-")


def read_field_name(value: object) -> str:
    """Read the name of a header field that no mail server acts on."""
    name = value if isinstance(value, str) else ""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"must be the name of a header field: letters, digits and -, {_MAX_NAME_CHARACTERS} at most"
        )
    lower = name.lower()
    if lower in _STRUCTURAL_NAMES or lower.startswith(_STRUCTURAL_PREFIXES):
        raise ValueError("must be a field that no mail server or mail program acts on, such as X-Spam")
    return name


FieldName = Annotated[str, BeforeValidator(read_field_name)]

OWN_FIELD = "X-Nbstream"
"""The name of our own field where the configuration gives no other."""
SPAMASSASSIN_FIELDS = ("X-Spam-Flag", "X-Spam-Status", "X-Spam-Level")
"""SpamAssassin's fields, which sieve scripts and mail programs read."""
MAX_TAG_CHARACTERS = 44
"""The longest tag of the Subject."""
PLACEHOLDERS = (
    *("verdict", "flag", "probability", "score", "required"),
    *("stars", "id", "reason", "model"),
)
"""What the value of a field may contain in braces."""
MAX_TEMPLATE_CHARACTERS = 200

_MAX_LINE_CHARACTERS = 998  # RFC 5322 2.1.1
_MAX_FIELDS = 20
_MAX_OWN_FIELD_CHARACTERS = 40  # "-Continued" is appended, and a value begins on the same line
_ALLOWED_VALUE = (
    f"must be one line of at most {MAX_TEMPLATE_CHARACTERS} printable ASCII characters, "
    f"with no placeholders but {{{'} {'.join(PLACEHOLDERS)}}} (a brace itself is doubled)"
)

VerdictName: TypeAlias = Literal["ham", "unsure", "spam", "reject"]


def read_field_value(value: object) -> str:
    """Read one line of text with placeholders."""
    if not isinstance(value, str):
        raise ValueError("must be text (true, YES and numbers need quotes)")  # noqa: TRY004 - a problem of the file
    try:
        pieces = list(string.Formatter().parse(value))
    except ValueError:
        raise ValueError(_ALLOWED_VALUE) from None
    names = [piece[1:] for piece in pieces if piece[1] is not None]
    is_plain = all(name in PLACEHOLDERS and not spec and not conversion for name, spec, conversion in names)
    is_line = value.isascii() and value.isprintable() and len(value) <= MAX_TEMPLATE_CHARACTERS
    if not is_plain or not is_line:
        raise ValueError(_ALLOWED_VALUE)
    return value


class HeaderFieldSettings(Section):
    """A header field, and the verdicts of the messages that get it."""

    name: FieldName
    """The name of the field. Every copy that arrives from outside is removed."""

    value: Annotated[str, BeforeValidator(read_field_value)]
    """The value, with placeholders: ``{verdict}``, ``{flag}`` (``Yes`` for spam, else ``No``),
    ``{probability}``, ``{score}`` and ``{required}`` (ln(P / (1 - P)) of the message and of the threshold for
    spam), ``{stars}`` (one for each whole unit of the score), ``{id}``, ``{reason}``, ``{model}``.
    """

    verdicts: Annotated[tuple[VerdictName, ...], Strict(False), Field(min_length=1, max_length=4)] = (
        "ham",
        "unsure",
        "spam",
        "reject",
    )
    """The verdicts for which the field is written."""

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the value."""
        return frozenset(name for _, name, _, _ in string.Formatter().parse(self.value) if name)

    @property
    def shows_stars(self) -> bool:
        """Whether the field shows the score as stars, which scripts file by."""
        return "stars" in self.placeholders

    def render(self, values: Mapping[str, str]) -> tuple[str, str]:
        """Return name and value; ``values`` has the placeholders of the value."""
        value = self.value.format_map(values)
        return self.name, value[: _MAX_LINE_CHARACTERS - len(self.name) - 2]


_FLAG, _STATUS, _LEVEL = SPAMASSASSIN_FIELDS
# Without validation, which would build the validator of the class whenever a command starts.
_DEFAULT_FIELDS = tuple(
    HeaderFieldSettings.model_construct(name=name, value=value, verdicts=verdicts)
    for name, value, verdicts in (
        (_FLAG, "YES", ("spam", "reject")),
        (_STATUS, "{flag}, score={score} required={required}", tuple(map(str, Verdict))),
        (_LEVEL, "{stars}", tuple(map(str, Verdict))),
    )
)


def read_subject_tag(value: object) -> str:
    """Read at most 44 characters of ASCII, such as ``"[SPAM] "``; one space always follows the tag."""
    tag = value.strip() if isinstance(value, str) else ""
    if not 0 < len(tag) <= MAX_TAG_CHARACTERS or not tag.isascii() or not tag.isprintable() or "=?" in tag:
        raise ValueError(f'must be printable ASCII of at most {MAX_TAG_CHARACTERS} characters, such as "[SPAM] "')
    return tag


class HeadersSettings(Section):
    """What the header of a delivered message says, and how the Subject of spam begins."""

    mode: Literal["mark", "observe"] = "mark"
    """``observe`` is for a trial: nothing but ``own_field`` is written, no action is taken, and all mail
    passes.
    """

    clues: bool = True
    """Write ``X-Nbstream-Clues``, the eight strongest clues. Set it to ``false`` where marked mail goes on to
    strangers.
    """

    own_field: FieldName = OWN_FIELD
    """The name of the field that says everything and carries the id. Names of further fields begin with it. A
    second nbstream needs another name.
    """

    subject_tag: Annotated[str, BeforeValidator(read_subject_tag)] | None = None
    """A tag before the Subject of spam, such as ``"[SPAM] "``. It breaks DKIM signatures of the Subject."""

    fields: Annotated[tuple[HeaderFieldSettings, ...], Strict(False), Field(max_length=_MAX_FIELDS)] = (
        _DEFAULT_FIELDS
    )
    """The fields beside ``own_field``. ``[]`` writes none, and leaves those of another filter alone."""

    @field_validator("own_field")
    @classmethod
    def _own_field_leaves_room(cls, value: str) -> str:
        if len(value) > _MAX_OWN_FIELD_CHARACTERS:
            raise ValueError(f"must have at most {_MAX_OWN_FIELD_CHARACTERS} characters")
        return value

    @field_validator("fields")
    @classmethod
    def _names_are_not_those_of_own_field(
        cls, value: tuple[HeaderFieldSettings, ...], info: ValidationInfo
    ) -> tuple[HeaderFieldSettings, ...]:
        own_field = str(info.data.get("own_field", OWN_FIELD)).lower()
        text = "must be another name than that of own_field and of the fields that begin with it"
        problems: list[RuleProblem] = [
            ((position, "name"), text, field.name)
            for position, field in enumerate(value)
            if f"{field.name.lower()}-".startswith(f"{own_field}-")
        ]
        if problems:
            raise located_error(problems)
        return value


class AutolearnSettings(Section):
    """Autolearning: learning without people what a check is sure of, in columns of its own."""

    ham: Probability = 0.001
    """A message with at most this P(spam) is learned as ham. Where it is not written, it is the default or half
    of ``verdict.unsure``, whichever is lower.
    """

    spam: Probability = 0.999
    """A message with at least this P(spam) is learned as spam. Where it is not written, it is the default or
    ``verdict.spam``, whichever is higher.
    """

    def beyond(self, unsure: float, spam: float) -> Self:
        """Return the settings for these thresholds: a limit that was not written follows them.

        Raises ValueError where a written one does not fit.
        """
        written = self.model_fields_set
        if "ham" in written and self.ham >= unsure:
            raise ValueError(f"must have a ham below verdict.unsure ({unsure})")
        if "spam" in written and self.spam < spam:
            raise ValueError(f"must have a spam of at least verdict.spam ({spam})")
        limits = {"ham": min(self.ham, unsure / 2), "spam": max(self.spam, spam)}
        following = {name: limit for name, limit in limits.items() if name not in written}
        # Not by model_copy, which would count what follows as written: it follows the thresholds of a reload too.
        return self.model_construct(written, **{**dict(self), **following})

    def label(self, probability: float) -> str | None:
        """Return the label that a message with this P(spam) is learned as; None where the check is not sure."""
        if probability >= self.spam:
            return "spam"
        return "ham" if probability <= self.ham else None
