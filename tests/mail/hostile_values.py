"""Pieces of header values that a pattern reads in quadratic time if it can start again at each of them."""

from __future__ import annotations

HOSTILE_PIECES = [
    b"=?a?q?x",
    b"=?",
    b"=?a?q?",
    b"?=",
    b"=?utf-8?b?AAAA",
    b" =?a?q?x?=",
    b'; a="',
    b"; a=b",
    b'"',
    b"\\",
]
