"""``nbstream demo``: one command shows the filter at work, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import smtplib
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.addresses import TcpAddress
from nbstream.demo.command import People, demo_settings
from nbstream.demo.mail import labelled_mail
from tests.harness.waiting import DEADLINE_SECONDS, until

COMMAND = (sys.executable, "-m", "nbstream.cli", "demo", "--pause", "0")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for unix sockets, whose paths may not be long."""
    with tempfile.TemporaryDirectory(prefix="nbstream-") as folder:
        yield Path(folder)


async def start(folder: Path, *words: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return await asyncio.create_subprocess_exec(
        *COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment
    )


async def test_mail_flows_and_is_told_apart_after_the_first_lessons(short_folder: Path) -> None:
    demo = await start(short_folder, "--messages", "30")

    printed, _ = await asyncio.wait_for(demo.communicate(), DEADLINE_SECONDS)

    lines = printed.decode().splitlines()
    flowed = [line.split()[0] for line in lines if re.match(r"  (ham|unsure|spam) +[01]\.\d{3}  ", line)]
    assert demo.returncode == 0, printed
    assert "  60 of 60 messages learned" in lines
    assert len(flowed) == 30
    assert {"ham", "spam"} <= set(flowed)
    assert lines[-1].endswith("the demo is over, and nothing is left of it")
    assert list(short_folder.iterdir()) == []


async def test_the_link_leads_to_the_page_and_ctrl_c_removes_all(short_folder: Path) -> None:
    demo = await start(short_folder)
    assert demo.stdout
    text = ""
    while not (link := re.search(r"http://\S+", text)):
        line = await asyncio.wait_for(demo.stdout.readline(), DEADLINE_SECONDS)
        assert line, text
        text += line.decode()

    page = await asyncio.to_thread(lambda: urllib.request.urlopen(link[0], timeout=DEADLINE_SECONDS).read())
    demo.send_signal(signal.SIGINT)
    printed, _ = await asyncio.wait_for(demo.communicate(), DEADLINE_SECONDS)

    assert b"<form" in page
    assert demo.returncode == 0, printed
    assert list(short_folder.iterdir()) == []


async def test_a_signal_while_it_starts_removes_the_folder(short_folder: Path) -> None:
    demo = await start(short_folder)
    await until(lambda: any(short_folder.iterdir()))

    demo.send_signal(signal.SIGTERM)
    printed, _ = await asyncio.wait_for(demo.communicate(), DEADLINE_SECONDS)

    assert demo.returncode == 0, printed
    assert b"Traceback" not in printed
    assert list(short_folder.iterdir()) == []


async def test_mail_that_is_not_taken_is_an_error_of_smtp(short_folder: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in (b"220", b"250", b"250", b"250", b"354", b"451"):
            writer.write(reply + b" x\r\n")
            await (reader.readuntil(b"\r\n.\r\n") if reply == b"354" else reader.readline())
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    people = People(demo_settings(short_folder), TcpAddress("127.0.0.1", server.sockets[0].getsockname()[1]))

    with pytest.raises(smtplib.SMTPDataError):
        await people.receive(next(labelled_mail(1)))
    people.leave()
    server.close()
    await server.wait_closed()
