"""What a client reads in the reply to EHLO, and says to log in."""

from __future__ import annotations

from base64 import b64decode

import pytest

from nbstream.delivery.smtp_next_hop import auth_lines, ehlo_extensions


def test_extensions_are_the_lines_behind_the_name_of_the_server() -> None:
    assert ehlo_extensions("SIZE.example hello\nPIPELINING\nsize 1000\nAUTH plain LOGIN\n") == {
        "PIPELINING": (),
        "SIZE": ("1000",),
        "AUTH": ("PLAIN", "LOGIN"),
    }


def test_plain_says_all_in_one_line() -> None:
    (line,) = auth_lines(("LOGIN", "PLAIN"), "ann", "s\u00e9same")

    verb, mechanism, response = line.split(b" ")
    assert (verb, mechanism) == (b"AUTH", b"PLAIN")
    assert b64decode(response) == "\0ann\0s\u00e9same".encode()


def test_login_says_user_and_password_in_turn() -> None:
    assert auth_lines(("LOGIN",), "ann", "sesame") == [b"AUTH LOGIN", b"YW5u", b"c2VzYW1l"]


@pytest.mark.parametrize("mechanisms", [(), ("GSSAPI", "CRAM-MD5")])
def test_there_is_nothing_to_say_where_no_mechanism_is_known(mechanisms: tuple[str, ...]) -> None:
    assert auth_lines(mechanisms, "ann", "sesame") == []
