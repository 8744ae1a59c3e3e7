"""The settings of own models: the rules ``models``, and the section ``own_models``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from nbstream.errors import ConfigError
from nbstream.mail.addresses import canonical_domain
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.own_models.names import NameTemplate, OwnModelNames, read_alias_lines
from nbstream.policy.settings import read_address_pattern
from nbstream.settings.values import FilePath, Section, read_host_name

MAX_RULES = 200
_MAX_ALIAS_BYTES = 16 << 20


def read_name_template(value: object) -> NameTemplate:
    """Read a template of names such as ``{domain}/{local}``."""
    return value if isinstance(value, NameTemplate) else NameTemplate(value if isinstance(value, str) else "")


def read_delimiter(value: object) -> str:
    """Read one character that a local part may have, or nothing."""
    if isinstance(value, str) and (value == "" or (len(value) == 1 and value in "+-_=.#!~")):
        return value
    raise ValueError("must be one of + - _ = . # ! ~, or empty")


class OwnModelRuleSettings(Section):
    """Which addresses have own models, and how these are named."""

    match: Annotated[AddressPattern, BeforeValidator(read_address_pattern)]
    """The pattern of the addresses for which the rule holds: ``*`` is any characters, ``?`` is one."""

    name: Annotated[NameTemplate, BeforeValidator(read_name_template)]
    """The name of the own model: ``{domain}`` is one for each domain, ``{address}`` one for each user,
    ``{domain}/{local}`` one for each user above one for the domain.
    """


class OwnModelsSettings(Section):
    """What holds for all own models."""

    delimiter: Annotated[str, BeforeValidator(read_delimiter)] = "+"
    """What separates the user from the rest of a local part: ``anna+news`` is ``anna``. Empty for none."""

    domain: Annotated[str, BeforeValidator(read_host_name)] | None = None
    """The domain of users whose names have none, such as logins. With ``null`` their lessons go into the common
    model, and they cannot log in to the self-service page.
    """

    alias_file: FilePath | None = None
    """A file with one alias on a line, ``ALIAS USER``. It is read at the start and at each reload."""

    expire_days: Annotated[int, Field(ge=1, le=36500)] | None = None
    """An own model that has not been used for so many days is removed; ``null`` for never."""

    def read_aliases(self) -> Mapping[str, str]:
        """Return the aliases of the file. Raises ``ConfigError`` where it is no readable map of aliases."""
        if self.alias_file is None:
            return {}
        unusable = "own_models.alias_file cannot be used"
        try:
            with self.alias_file.open("rb") as file:
                content = file.read(_MAX_ALIAS_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{unusable}: {error}") from error
        if len(content) > _MAX_ALIAS_BYTES:
            raise ConfigError(f"{unusable}: {self.alias_file} has more than {_MAX_ALIAS_BYTES >> 20} MiB")
        try:
            return read_alias_lines(content.decode().splitlines())
        except ValueError as error:
            raise ConfigError(f"{unusable}: {self.alias_file}: {error}") from error


def make_names(rules: tuple[OwnModelRuleSettings, ...], section: OwnModelsSettings) -> OwnModelNames:
    """Return what finds the user behind an address, and the own models of that user.

    Raises ``ConfigError`` where the aliases cannot be read.
    """
    return OwnModelNames(
        tuple(rule.match for rule in rules),
        tuple(rule.name for rule in rules),
        section.delimiter,
        section.read_aliases(),
        canonical_domain(section.domain or ""),
    )
