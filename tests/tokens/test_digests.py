"""Tokens and keys are the same on every supported interpreter: one of them wrote the file of digests."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata

from nbstream.mail.message import Message
from nbstream.tokens.origins import ORIGINS
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from nbstream.tokens.unicode import REPLACEMENT, only_known
from tests.harness.generated_mail import TRUSTED_AUTHSERV_IDS, charsets, generated_mail
from tests.tokens.digests import FILE, OPTIONS, digests

# The digest of all properties that the tokenizer reads, over all characters that it does not replace.
_PROPERTIES = "880dc1a96a4ff0c2ceccc3af"


def test_tokens_and_keys_are_those_that_every_interpreter_makes() -> None:
    assert digests(Tokenizer(OPTIONS)) == FILE.read_text().splitlines()


def test_the_generated_mail_has_every_kind_of_token() -> None:
    tokenizer = Tokenizer(TokenizerOptions(trusted_authserv_ids=TRUSTED_AUTHSERV_IDS))
    tokens = [tokenizer.tokenize(Message.parse(raw)).tokens for _, raw in generated_mail()]
    prefixes = {token.partition(b":")[0].decode() for message_tokens in tokens for token in message_tokens.all}
    known = {name for name in ORIGINS if name.startswith("known.")}  # no mail has these by itself
    assert set(ORIGINS) - known - {"autolearn"} <= prefixes  # the last one is a clue and no token


def test_the_generated_mail_names_every_charset_of_the_interpreter() -> None:
    assert len(charsets()) > 90


def test_every_character_that_is_not_replaced_has_the_same_properties_on_every_interpreter() -> None:
    word = re.compile(r"\w")
    digest = hashlib.blake2b(digest_size=12)
    for c in map(chr, range(sys.maxunicode + 1)):
        if 0xD800 <= ord(c) < 0xE000 or only_known(c) == REPLACEMENT:
            continue
        folded = unicodedata.normalize("NFKC", c).casefold()
        traits = (
            c.isalpha(),
            c.isalnum(),
            c.isdigit(),
            c.isupper(),
            c.islower(),
            c.isspace(),
            bool(word.match(c)),
        )
        digest.update(f"{c}{folded}{c.lower()}{traits}{unicodedata.combining(c)}".encode())
    assert digest.hexdigest() == _PROPERTIES
