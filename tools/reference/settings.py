"""The reference of the settings: every key with its values, default and meaning, from ``nbstream.daemon.config``.

The meaning of a key is the string below its field. Pydantic could read these strings itself
(``use_attribute_docstrings``), but only while it creates the classes: it would parse their source at the start of
every command. The values of a key are the first sentence of the function that reads it, or follow from its type.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from nbstream.daemon.config import LIVE_SECTIONS, Settings
from nbstream.delivery.settings import MaildirNextHopSetting
from tools.reference.markup import NOTICE, Undocumented, definitions, first_sentence, paragraph

_MEBIBYTE = 1 << 20
_BOUNDS = (Ge, Gt, Le, Lt, MinLen, MaxLen)
_GIVEN, _INHERITED = "must be given", "inherited"
_WITHOUT_DEFAULT = (_GIVEN, _INHERITED)
_NUMBERS = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its dotted path, its possible values, its default as YAML, and its meaning as Markdown."""

    key: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SettingsSection:
    """One mapping of the file, which may be null if ``optional``, and is null by default if ``off``.

    The top of the file has no key. ``items`` are those of a list by default, each in one line of YAML.
    """

    key: str
    meaning: str
    settings: tuple[Setting, ...]
    optional: bool = False
    off: bool = False
    items: tuple[str, ...] = ()

    @property
    def repeated(self) -> bool:
        """Whether the section is an item of a list."""
        return self.key.endswith("[]")

    @property
    def live(self) -> bool:
        """Whether a reload applies the section; at the top that differs from key to key."""
        return self.key.partition(".")[0].removesuffix("[]") in LIVE_SECTIONS


def sections(model: type[BaseModel] = Settings) -> list[SettingsSection]:
    """Return all mappings of the file in their order, the top first. Raises ``Undocumented``."""
    return list(_sections(model, "", "The keys at the top of the file."))


def _sections(
    model: type[BaseModel],
    key: str,
    meaning: str,
    *,
    optional: bool = False,
    off: bool = False,
    items: tuple[str, ...] = (),
) -> Iterator[SettingsSection]:
    prefix = f"{key}." if key else ""
    settings: list[Setting] = []
    nested_sections: list[SettingsSection] = []
    for name, hint in get_type_hints(model, include_extras=True).items():
        if name not in model.model_fields:
            continue
        field, path = model.model_fields[name], prefix + name
        inner, listed = _model_in(hint)
        if inner is None or key == "recipients[]":  # its sections are the same as those of the top
            settings.append(Setting(path, *_values_and_default(path, hint, field), _meaning(model, name, path)))
            continue
        nested_sections.extend(
            _sections(
                inner,
                f"{path}[]" if listed else path,
                _meaning(model, name, path),
                optional=NoneType in get_args(hint),
                off=field.default is None,
                items=tuple(map(_yaml_item, field.default)) if listed else (),
            )
        )
    yield SettingsSection(key, meaning, tuple(settings), optional, off, items)
    yield from nested_sections


def _model_in(hint: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the section that a field has as its value, and whether the value is a list of such sections."""
    if get_origin(hint) is Annotated:
        return _model_in(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return _model_in(get_args(hint)[0])[0], True
    kinds = (hint, *get_args(hint)) if _is_union(hint) else (hint,)
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return (models[0], False) if models else (None, False)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in {Union, UnionType}


def _meaning(model: type[BaseModel], name: str, key: str) -> str:
    for owner in model.__mro__:
        if issubclass(owner, BaseModel) and name in _texts(owner):
            return _texts(owner)[name]
    raise Undocumented(f"the setting {key} has no text below it: {model.__module__}, class {model.__name__}")


@cache
def _texts(owner: type) -> dict[str, str]:
    """Return the string below each field of a class, as Markdown."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = paragraph(ast.literal_eval(text.value))
    return texts


def _values_and_default(key: str, hint: Any, field: FieldInfo) -> tuple[str, str]:
    if field.is_required():
        return _values(hint), _GIVEN
    if _model_in(hint)[0]:
        return _values(hint), _INHERITED
    text = f"`{_yaml(hint, field.default)}`"
    if "bytes" in key and not field.default % _MEBIBYTE:
        text += f" ({field.default // _MEBIBYTE} MiB)"
    return _values(hint), text


def _yaml(hint: Any, value: Any) -> str:
    """Return a default as it is written in the file."""
    if isinstance(value, MaildirNextHopSetting):
        return "maildir"
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return str(list(map(str, value))).replace("'", '"')
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(value)


def _yaml_item(item: BaseModel) -> str:
    """Return an item of a list as one line of YAML, without the keys that have their default."""
    given = item.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.safe_dump(given, default_flow_style=True, sort_keys=False, width=1000)).strip()


def _values(hint: Any, limits: tuple[Any, ...] = ()) -> str:
    """Return the possible values of a key, in words."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        for item in metadata:
            if isinstance(item, BeforeValidator):
                text = first_sentence(item.func.__doc__ or "").removeprefix("Read ")
                return text[0].lower() + text[1:]
        inner_limits = [
            limit for item in metadata for limit in (item.metadata if isinstance(item, FieldInfo) else [item])
        ]
        return _values(inner, (*limits, *inner_limits))
    if _is_union(hint):
        kinds = sorted(get_args(hint), key=lambda kind: kind is not NoneType)
        return " or ".join(_values(kind) for kind in kinds)
    if get_origin(hint) is tuple:
        return f"a list; each is {_values(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"a mapping; each value is {_values(get_args(hint)[1])}"
    if get_origin(hint) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(hint))
    return _plain(hint, limits)


def _plain(kind: Any, limits: tuple[Any, ...]) -> str:
    if kind is NoneType:
        return "`null`"
    if kind is bool:
        return "`true`, `false`"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "a mapping"
    return f"text, {_bounds(limits)} characters" if kind is str else f"{_NUMBERS[kind]} {_bounds(limits)}"


def _bounds(limits: tuple[Any, ...]) -> str:
    match tuple(
        limit for limit in limits if isinstance(limit, _BOUNDS)
    ):  # that a number is finite is not mentioned
        case (Ge(ge=least), Le(le=most)) | (MinLen(min_length=least), MaxLen(max_length=most)):
            return f"from {_number(least)} to {_number(most)}"
        case (Gt(gt=least), Le(le=most)):
            return f"above {_number(least)} and up to {_number(most)}"
        case (Gt(gt=least), Lt(lt=most)):
            return f"above {_number(least)} and below {_number(most)}"
    raise Undocumented(f"the limits {limits} of a setting cannot be written in words yet")


def _number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def page() -> str:
    """Return the page as Markdown."""
    text, described = f"{NOTICE}\n# Settings\n{DESCRIPTION}{_EXAMPLE}", dict[tuple[str, ...], str]()
    for section in sections():
        text += _section_text(section, described)
    return text


_EXAMPLE = """
`nbstream config show` prints every setting that holds and the line that it comes from, and
`nbstream config show --defaults` every key at its default, to copy from.
"""

DESCRIPTION = """
The configuration is one YAML file. Every key may be left out, and every default is safe; a key that nbstream does
not know stops the start. Without `-c FILE` the first of `./nbstream.yaml`,
`~/.config/nbstream/nbstream.yaml` (the folder is `$XDG_CONFIG_HOME` where that is set) and
`/etc/nbstream/nbstream.yaml` is read; without any of them the defaults hold. A relative path counts from the
folder in which the command was started, and `~` is the home folder.

`nbstream config check FILE` says what is wrong with a file. A section that is marked *applied by a reload* takes
effect with `nbstream reload` or SIGHUP; all else takes effect at the next start.
"""


def _section_text(section: SettingsSection, described: dict[tuple[str, ...], str]) -> str:
    """Return a section, without the keys that an earlier one ``described`` word for word; adds its own there."""
    remarks, entries, known = notes(section), [], dict[str, list[str]]()
    for setting in section.settings:
        name = setting.key.rpartition(".")[2]
        first = described.setdefault((name, setting.values, setting.default, setting.meaning), section.key)
        if first == section.key:
            entries.append((setting.key, _remark(setting), meaning_with_note(setting)))
        else:
            known.setdefault(first, []).append(f"`{name}`")
    title = f"`{section.key}`" if section.key else "Top of the file"
    text = f"\n## {title}\n\n{section.meaning}\n"
    if remarks:
        text += f"\n{' '.join(remarks)}\n"
    text += f"\n{definitions(entries)}" * bool(entries)
    return text + "".join(
        f"\nAs in [`{first}`](#{first.replace('.', '').removesuffix('[]')}): {', '.join(names)}.\n"
        for first, names in known.items()
    )


def _remark(setting: Setting) -> str:
    """Return the values and the default of a key in one phrase."""
    if setting.default in _WITHOUT_DEFAULT:
        return f"{setting.values}; {setting.default}"
    return f"{setting.values.removeprefix('`null` or ')}; default {setting.default}"


def notes(section: SettingsSection) -> list[str]:
    """Return what the reference says of a section besides its meaning, as Markdown sentences."""
    remarks = []
    if section.items:
        remarks.append(
            "The list has these items by default: " + ", ".join(f"`{item}`" for item in section.items) + "."
        )
    elif section.repeated:
        remarks.append("The list is empty by default.")
    elif section.off:
        required = [setting.key.rpartition(".")[2] for setting in section.settings if setting.default == _GIVEN]
        name = section.key.rpartition(".")[2]
        example = ", ".join(f"{key}: ..." for key in required)
        remarks.append(f"Off by default (`null`); `{name}: {{{example}}}` turns it on.")
    elif section.optional:
        remarks.append("`null` turns it off.")
    if section.key and section.live:
        remarks.append("*Applied by a reload.*")
    return remarks


def meaning_with_note(setting: Setting) -> str:
    """Return the meaning of a key, with a note that a reload applies it where that differs from key to key."""
    return f"{setting.meaning} *Applied by a reload.*" if setting.key in LIVE_SECTIONS else setting.meaning
