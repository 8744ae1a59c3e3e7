"""A key of keyed hashes, in a file of its own: who reads Redis alone learns nothing of what was hashed.

Rules: the file is made once, whole, for its owner alone, and is on the disk before anything is learned under its
key; of several processes that make it at the same moment one does, and all read it. It has the key in hexadecimal,
so that a person can copy it to another machine.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING

from nbstream.durable_files import make_folder, sync_folder
from nbstream.errors import ConfigError
from nbstream.tokens.private_tokens import KEY_BYTES

if TYPE_CHECKING:
    from pathlib import Path

_DIGITS = re.compile(r"[0-9a-fA-F]{%d}\n?" % (2 * KEY_BYTES))  # noqa: UP031 - braces are of the expression


def read_or_make_key(file: Path, setting: str) -> bytes:
    """Return the key in ``file``, which is made where it is missing; ``setting`` is what needs it.

    Raises ``ConfigError`` where it cannot be read or made, or is no key.
    """
    try:
        if not file.exists():
            _make_key(file)
        text = file.read_bytes().decode("ascii", "replace")
    except OSError as error:
        raise ConfigError(f"the key of {setting} cannot be read or made: {file}: {error.strerror}") from error
    if not _DIGITS.fullmatch(text):
        raise ConfigError(
            f"{file} is no key of {setting}: it must have {2 * KEY_BYTES} hexadecimal digits. "
            "Put back the file that the model was begun with"
        )
    return bytes.fromhex(text)


def _make_key(file: Path) -> None:
    """Make the file, unless another process does so at the same moment. Raises ``OSError``."""
    make_folder(file.parent)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as content:
            content.write(f"{secrets.token_hex(KEY_BYTES)}\n")
            content.flush()
            os.fsync(content.fileno())
            if os.geteuid() == 0:  # a command of root's: the daemon has to read it
                owner = file.parent.stat()
                os.fchown(content.fileno(), owner.st_uid, owner.st_gid)
        try:
            os.link(draft, file)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    sync_folder(file.parent)
