"""Digests of the tokens and keys of generated messages.

``python -m tests.tokens.digests`` writes the file again; only a new ``MODEL_FORMAT`` may change a line.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from nbstream.mail.message import Message
from nbstream.tokens import MODEL_FORMAT
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.harness.generated_mail import TRUSTED_AUTHSERV_IDS, generated_mail

FILE = Path(__file__).with_name("digests.tsv")


OPTIONS = TokenizerOptions(trusted_authserv_ids=TRUSTED_AUTHSERV_IDS)


def digests(tokenizer: Tokenizer) -> list[str]:
    """A line for each message: name, digest of the tokens, key."""
    lines = [f"format\t{MODEL_FORMAT}\t"]
    for name, raw in generated_mail():
        message = Message.parse(raw)
        taken = tokenizer.tokenize(message)
        content = b"\0".join(b"\n".join(group) for group in taken.tokens.groups)
        lines.append(f"{name}\t{hashlib.blake2b(content, digest_size=12).hexdigest()}\t{taken.key}")
    return lines


if __name__ == "__main__":
    FILE.write_text("\n".join(digests(Tokenizer(OPTIONS))) + "\n")
