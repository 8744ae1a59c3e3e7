"""What was learned here, in the tokens of other filters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from nbstream.mail.message import Message
from nbstream.other_filters.dump_writing import BogofilterDump, Dump, SpamassassinBackup
from nbstream.tokens.tokenizer import Tokenizer

SPAM = b"""\
Return-Path: <bob@shop.example.com>
Received: from mail.shop.example.com by mx.example.org
From: Bob <bob@shop.example.com>
To: ann@example.org
Subject: cheap watches
X-Mailer: Fast

Buy watches at http://www.shop.example.com/ now, 123 extraordinarily-cheap
"""
HAM = b"From: carl@example.net\nSubject: lunch\n\nwatches\n"


def dumped(dump: Dump, *letters: tuple[str, bytes]) -> list[bytes]:
    for n, (label, raw) in enumerate(letters):
        dump.add(label, 86_400.0 * n, Tokenizer().tokenize(Message.parse(raw)).all.names)
    return list(dump.lines())


def words(lines: Iterable[bytes]) -> set[str]:
    return {line.split(b" ")[0].decode() for line in lines}


def test_bogofilter_counts_messages_of_spam_and_of_ham_and_the_day() -> None:
    lines = dumped(BogofilterDump(), ("spam", SPAM), ("ham", HAM), ("ham", HAM))
    assert lines[:3] == [b".WORDLIST_VERSION 20040500 0 0\n", b".ENCODING 2 0 0\n", b".MSG_COUNT 1 2 0\n"]
    assert {b"watches 1 2 19700103\n", b"subj:watches 1 0 19700101\n", b"subj:lunch 0 2 19700103\n"} <= set(lines)


def test_bogofilter_has_the_prefixes_of_its_lexer() -> None:
    found = words(dumped(BogofilterDump(), ("spam", SPAM)))
    assert {"rtrn:bob", "rtrn:shop.example.com", "from:Bob", "from:bob", "to:ann", "to:example.org"} <= found
    assert {"rcvd:mail.shop.example.com", "www.shop.example.com", "head:X-Mailer", "head:Fast"} <= found


def test_words_have_three_cases_for_bogofilter() -> None:
    assert {"watches", "Watches", "WATCHES"} <= words(dumped(BogofilterDump(), ("spam", SPAM)))


def test_what_bogofilter_does_not_make_is_not_written() -> None:
    found = words(dumped(BogofilterDump(), ("spam", SPAM)))
    assert not found & {"123", "at", "shop.example.com", "rcvd:shop.example.com", "head:From", "head:Subject"}
    assert all(2 < len(word.rpartition(":")[2]) <= 30 for word in found)


def test_spamassassin_has_hashes_of_its_tokens() -> None:
    lines = dumped(SpamassassinBackup(), ("spam", SPAM), ("ham", HAM))
    assert lines[:3] == [
        b"v\t3\tdb_version # this must be the first line!!!\n",
        b"v\t1\tnum_spam\n",
        b"v\t1\tnum_nonspam\n",
    ]
    for token in (
        "cheap",
        "UD:www.shop.example.com",
        "UD:example.com",
        "H*F:U*bob",
        "H*Ad:D*example.org",
        "sk:extraor",
    ):
        digest = hashlib.sha1(token.encode(), usedforsecurity=False).hexdigest()[-10:]
        assert b"t\t1\t0\t0\t%b\n" % digest.encode() in lines, token


def test_hostile_tokens_break_no_line() -> None:
    tokens = [
        b"body:\xff\xfe",
        b"body:",
        b"from:@",
        b"url:",
        b"received:..",
        b"body:a b 9 9\n",
        b"subject:\x1b[2J",
    ]
    for dump in (BogofilterDump(), SpamassassinBackup()):
        dump.add("spam", 0.0, tokens)
        assert all(line.isascii() and line.count(b"\n") == 1 and b"\x1b" not in line for line in dump.lines())
