"""A message as it arrived, and the same one in a mailbox: with our verdict, and what was added after the check."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

ARRIVED = b"""Received: from first.example by mx.example.org
From: ann@x.example
Subject: You have won

Claim your free prize now.
"""
DELIVERED = b"Received: from later.example by imap.example.org\nX-Nbstream: unsure; p=0.5\n" + ARRIVED


async def assert_learned_as_it_was_checked(client: Redis) -> None:
    """Assert that ``DELIVERED`` was learned as spam, with the tokens of ``ARRIVED``."""
    (counts,) = [key async for key in client.scan_iter("*:counts:spam")]
    tokens: Any = await client.hkeys(counts)
    assert b"received:first.example" in tokens
    assert b"received:later.example" not in tokens
