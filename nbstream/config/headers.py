"""The settings of header fields and of the Subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Strict, ValidationInfo, field_validator

from nbstream.config.inheritance import RuleProblem, located_error
from nbstream.config.section import Section
from nbstream.config.values import read_field_name, read_field_value, read_subject_tag
from nbstream.policy.field_names import other_filter_of
from nbstream.policy.field_templates import SPAMASSASSIN_TEMPLATES
from nbstream.policy.filter_marks import OWN_FIELD
from nbstream.policy.verdict import Verdict

VerdictName: TypeAlias = Literal["ham", "unsure", "spam", "reject"]
FieldName = Annotated[str, BeforeValidator(read_field_name)]
FieldNames = Annotated[tuple[FieldName, ...], Strict(False), Field(max_length=50)]

_MAX_FIELDS = 20
_MAX_OWN_FIELD_CHARACTERS = 40  # "-Continued" is appended, and a value begins on the same line


class HeaderFieldSettings(Section):
    """A header field, and the verdicts of the messages that get it."""

    name: FieldName
    """The name of the field. Every copy that arrives from outside is removed."""

    value: Annotated[str, BeforeValidator(read_field_value)]
    """The value, with placeholders: ``{verdict}``, ``{flag}`` (``Yes`` for spam, else ``No``), ``{probability}``
    of spam, ``{score}`` and ``{required}`` (ln(P / (1 - P)) of the message and of the threshold for spam),
    ``{stars}`` (one for each whole unit of the score), ``{id}`` of the message, ``{reason}`` of the verdict,
    ``{model}``.
    """

    verdicts: Annotated[tuple[VerdictName, ...], Strict(False), Field(min_length=1, max_length=4)] = (
        "ham",
        "unsure",
        "spam",
        "reject",
    )
    """The verdicts for which the field is written. A field may be in the list twice, for different verdicts."""


class RemovedFieldsSettings(Section):
    """The fields of other filters that are removed from a message by its verdict."""

    ham: FieldNames = ()
    """The names of the fields that are removed from ham."""

    unsure: FieldNames = ()
    """The names of the fields that are removed from a message whose verdict is unsure."""

    spam: FieldNames = ()
    """The names of the fields that are removed from spam."""

    reject: FieldNames = ()
    """The names of the fields that are removed from a message whose verdict is reject."""


# Without validation, which would build the validator of the class whenever a command starts.
_SPAMASSASSIN_FIELDS = tuple(
    HeaderFieldSettings.model_construct(name=template.name, value=template.value, verdicts=template.verdict_names)
    for template in SPAMASSASSIN_TEMPLATES
)


class HeadersSettings(Section):
    """What the header of a delivered message says, and how the Subject of spam begins."""

    mode: Literal["mark", "observe"] = "mark"
    """``observe`` is for a trial beside another filter: nothing but ``own_field`` is written, no other field and
    no Subject is changed, and no action is taken. All mail passes, also where a check fails. The log and
    ``nbstream_observed_actions_total`` say what would have been done.
    """

    clues: bool = True
    """Write ``X-Nbstream-Clues``: the eight strongest clues with their weights, in at most 500 bytes. Set it to
    ``false`` where marked mail goes on to strangers (mailing lists, forwarding, bounces by the next hop), because
    they would learn which words pass here. ``nbstream explain ID`` shows all clues in any case.
    """

    own_field: FieldName = OWN_FIELD
    """The name of the field that says everything and carries the id of the message. The names of further fields,
    such as that of the clues, begin with it. A second nbstream behind this one needs another name.
    """

    subject_tag: Annotated[str, BeforeValidator(read_subject_tag)] | None = None
    """What is put before the Subject of spam, such as ``"[SPAM] "``; ``null`` leaves every Subject as it is. The
    tag is not read as part of the Subject, in mail that comes in and in lessons. A DKIM signature of the Subject
    breaks: who verifies behind nbstream takes tagged mail for changed.
    """

    fields: Annotated[tuple[HeaderFieldSettings, ...], Strict(False), Field(max_length=_MAX_FIELDS)] = (
        _SPAMASSASSIN_FIELDS
    )
    """The fields beside ``own_field``: a list that replaces SpamAssassin's three. ``[]`` writes none of them, and
    leaves those of another filter alone.
    """

    remove: RemovedFieldsSettings = RemovedFieldsSettings()
    """The fields of other filters that are removed, by the verdict on the message."""

    @field_validator("own_field")
    @classmethod
    def _own_field_leaves_room(cls, value: str) -> str:
        if len(value) > _MAX_OWN_FIELD_CHARACTERS:
            raise ValueError(f"must have at most {_MAX_OWN_FIELD_CHARACTERS} characters")
        return value

    @field_validator("fields")
    @classmethod
    def _each_field_is_written_once(
        cls, value: tuple[HeaderFieldSettings, ...], info: ValidationInfo
    ) -> tuple[HeaderFieldSettings, ...]:
        own_field = str(info.data.get("own_field", OWN_FIELD)).lower()
        written: set[tuple[str, str]] = set()
        problems: list[RuleProblem] = []
        for position, field in enumerate(value):
            name = field.name.lower()
            if f"{name}-".startswith(f"{own_field}-"):
                text = "must be another name than that of own_field and of the fields that begin with it"
                problems.append(((position, "name"), text, field.name))
            if written & {(name, verdict) for verdict in field.verdicts}:
                text = "must be verdicts for which no field above has this name"
                problems.append(((position, "verdicts"), text, list(field.verdicts)))
            written |= {(name, verdict) for verdict in field.verdicts}
        if problems:
            raise located_error(problems)
        return value

    @field_validator("remove")
    @classmethod
    def _removed_fields_are_of_others(
        cls, value: RemovedFieldsSettings, info: ValidationInfo
    ) -> RemovedFieldsSettings:
        own_names = {field.name.lower() for field in info.data.get("fields", ())}
        own_names.add(str(info.data.get("own_field", OWN_FIELD)).lower())
        text = "must be the field of another filter: nbstream writes it, and removes it wherever it comes in"
        problems: list[RuleProblem] = [
            ((verdict, position), text, name)
            for verdict, names in value
            for position, name in enumerate(names)
            if name.lower() in own_names
        ]
        if problems:
            raise located_error(problems)
        return value

    @property
    def removals(self) -> dict[Verdict, tuple[str, ...]]:
        """The names of the fields that are removed, by verdict."""
        return {Verdict(verdict): names for verdict, names in self.remove if names}

    @property
    def warnings(self) -> list[str]:
        """One sentence for each name that another filter may need."""
        return list(self._warnings())

    def _warnings(self) -> Iterator[str]:
        has_default_fields = self.fields == _SPAMASSASSIN_FIELDS
        names = {"own_field": [self.own_field]}
        if self.mode == "mark" and not has_default_fields:
            names["fields"] = list(dict.fromkeys(field.name for field in self.fields))
        for key, written in names.items():
            for name in written:
                if other := other_filter_of(name):
                    yield (
                        f"headers.{key}: {name} is a field of {other}, and nbstream removes it from all mail that "
                        f"comes in: where {other} runs too, choose another name"
                    )
        if self.mode == "mark" and self.own_field != OWN_FIELD and has_default_fields:
            yield (
                "headers.fields: X-Spam-Flag, X-Spam-Status and X-Spam-Level are written and removed; where "
                "own_field differs because a second nbstream runs too, give these fields other names as well"
            )
