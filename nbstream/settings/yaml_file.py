"""A YAML file becomes plain data with the line of each value, or the list of what is wrong with its form.

Rules: a file is one document with a mapping at its top. Each key is given once. There are no aliases, and no tags
but those of YAML itself. An empty file is an empty mapping. A date is text. This is imported where a file is read
and nowhere else: a program without one needs no YAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from yaml.constructor import SafeConstructor

from nbstream.settings.document import ConfigProblem, Document, config_error, describe_kind
from nbstream.settings.values import read_text_file

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.settings.document import KeyPath

MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 20
_MAX_NUMBER = 10**18  # a larger one is no setting, and Python refuses to show one of more than 4,300 digits

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without its C part
_TEXT_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "value", "merge"))
_SCALAR_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))


def read_document(file: Path) -> Document:
    """Read a file of at most ``MAX_FILE_BYTES``. Raises ConfigError, which lists what is wrong with its form."""
    reader = _NodeReader()
    try:
        data = reader.read_text(read_text_file(file, MAX_FILE_BYTES))
    except ValueError as error:
        raise config_error(str(file), [ConfigProblem((), None, str(error))]) from None
    except yaml.YAMLError as error:
        raise config_error(str(file), [_syntax_problem(error)]) from None
    if reader.problems:
        raise config_error(str(file), reader.problems)
    if data is None:
        return Document()
    if not isinstance(data, dict):
        raise config_error(
            str(file), [ConfigProblem((), None, f"found {describe_kind(data)}, must be a mapping of settings")]
        )
    return Document(data, reader.lines)


def _find_unsupported(text: str) -> ConfigProblem | None:
    """Return the problem of the first alias or of the first value that is nested too deep, if there is one.

    It is found in the events, before a tree is built: libyaml's composer recurses in C, and 500,000 brackets end
    the process (PyYAML 6.0.3). Without aliases the tree is no larger than the file.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else None
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            return ConfigProblem((), line, f"found values nested deeper than {MAX_DEPTH}, must be fewer")
        if isinstance(event, yaml.AliasEvent):
            return ConfigProblem((), line, "found an alias, must be the value itself (text with a * needs quotes)")
    return None


def _syntax_problem(error: yaml.YAMLError) -> ConfigProblem:
    # Not str(error): the loader without C quotes the line of the file, and a password with it.
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return ConfigProblem((), None, f"must be YAML: {getattr(error, 'reason', 'not readable')}")
    mark = error.problem_mark
    within = f" {error.context}" if error.context else ""
    hint = "; text that begins with * or & needs quotes" if "alias" in within or "anchor" in within else ""
    return ConfigProblem(
        (), mark.line + 1, f"must be YAML:{within} {error.problem} (column {mark.column + 1}){hint}"
    )


class _NodeReader:
    """Turns nodes into plain data, and records their lines and problems."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[ConfigProblem] = []
        self._scalars = SafeConstructor()

    def read_text(self, text: str) -> object:
        """Return the data of a whole file. It is None for an empty file and for one with a problem."""
        unsupported = _find_unsupported(text)
        if unsupported:
            self.problems.append(unsupported)
            return None
        root = yaml.compose(text, Loader=_LOADER)
        return None if root is None else self._read(root, ())

    def _read(self, node: yaml.Node, key: KeyPath) -> object:
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return self._sequence(node, key)
        if isinstance(node, yaml.ScalarNode) and node.tag in _TEXT_TAGS:
            return node.value
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALAR_TAGS:
            return self._scalar(node, key)
        self._refuse(node, key, "found a tag, must be a plain value without one")
        return None

    def _mapping(self, node: yaml.MappingNode, key: KeyPath) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self._refuse(name, key, "found a list or mapping as a key, must be text")
            elif name.value in values:
                first = self.lines[(*key, name.value)]
                self._refuse(name, (*key, name.value), f"found twice, must be given once (also on line {first})")
            else:
                self.lines[(*key, name.value)] = name.start_mark.line + 1
                values[name.value] = self._read(value, (*key, name.value))
        return values

    def _sequence(self, node: yaml.SequenceNode, key: KeyPath) -> list[object]:
        values = []
        for position, item in enumerate(node.value):
            self.lines[(*key, position)] = item.start_mark.line + 1
            values.append(self._read(item, (*key, position)))
        return values

    def _scalar(self, node: yaml.ScalarNode, key: KeyPath) -> object:
        try:
            value: object = self._scalars.construct_object(node)
        except (ValueError, LookupError):  # 0x_ passes YAML's pattern of a number; "!!bool maybe"; "!!int"
            self._refuse(node, key, "found a malformed value, must be a number, true, false or null")
            return None
        if isinstance(value, int) and abs(value) > _MAX_NUMBER:
            self._refuse(node, key, "found a number of more than 18 digits, must be a smaller one")
            return None
        return value

    def _refuse(self, node: yaml.Node, key: KeyPath, text: str) -> None:
        self.problems.append(ConfigProblem(key, node.start_mark.line + 1, text))
