"""The page about the library, and its examples, run as they stand."""

from __future__ import annotations

import asyncio
import csv
import json
import mailbox
import re
import smtplib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nbstream import SpamFilter
from tests.harness.daemon import free_port
from tests.harness.handbook_pages import ROOT, fenced, page
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS

EXAMPLES = ROOT / "docs" / "examples"


@asynccontextmanager
async def serving(example: str, folder: Path, ready: str) -> AsyncIterator[int]:
    """Run a server of the examples in a folder, and return its port once it has printed that it is ready."""
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-u", EXAMPLES / example, str(port), cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout
    try:
        printed = ""
        while ready not in printed:
            line = await asyncio.wait_for(server.stdout.readline(), DEADLINE_SECONDS)
            assert line, printed
            printed += line.decode()
        yield port
    finally:
        server.kill()
        await server.wait()


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    program, _ = fenced(page("guides/python.md"), "python")

    exec(program, {"raw": b"Subject: Prize\n\nClaim your free prize now\n"})  # the page's own program

    assert "unsure" in capsys.readouterr().out
    assert (tmp_path / "mail.nbs").exists()


def test_the_setting_of_the_page_lets_short_texts_be_spam_early() -> None:
    _, program = fenced(page("guides/python.md"), "python")
    names: dict[str, Any] = {"SpamFilter": SpamFilter}
    exec(program, names)  # as above
    early = names["spam_filter"]
    with early, SpamFilter.in_memory({"model": names["short_texts"]["model"]}) as of_default_threshold:
        for spam_filter in (early, of_default_threshold):
            for n in range(20):
                spam_filter.learn(f"cheap watches, click now, number {n}", "spam")
                spam_filter.learn(f"a question about your opening hours on day {n}", "ham")

        text = "cheap watches, click now, number 99"
        assert (early.check(text).verdict, of_default_threshold.check(text).verdict) == ("spam", "unsure")
        assert early.check("what are your opening hours on Sunday?").verdict == "ham"


def test_a_maildir_is_sorted(tmp_path: Path) -> None:
    inbox = mailbox.Maildir(tmp_path / "Maildir")
    junk = inbox.add_folder("Junk")
    for label, raw in samples(160):
        message = mailbox.MaildirMessage(raw)
        message.add_flag("S")
        (junk if label == "spam" else inbox).add(message)
    new = [(label, raw) for label, raw in samples(30, seed=9)]
    for _, raw in new:
        inbox.add(mailbox.MaildirMessage(raw))
    in_junk = len(junk)

    command = [sys.executable, str(EXAMPLES / "sort_maildir.py"), str(tmp_path / "Maildir")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    verdicts = [line.split()[0] for line in done.stdout.splitlines()]
    moved = verdicts.count("spam")
    assert sorted(set(verdicts)) in (["ham", "spam"], ["ham", "spam", "unsure"])
    assert moved > 0.8 * sum(label == "spam" for label, _ in new)
    assert len(list(mailbox.Maildir(tmp_path / "Maildir").get_folder("Junk"))) == in_junk + moved


async def test_the_handler_of_aiosmtpd_learns_and_refuses(tmp_path: Path) -> None:
    async with serving("smtp_handler.py", tmp_path, "ready at port") as port:

        def use() -> int:
            with smtplib.SMTP("127.0.0.1", port, timeout=DEADLINE_SECONDS) as client:
                for label, raw in samples(140):
                    client.sendmail("ann@site.example", [f"{label}@localhost"], raw)
                refused = 0
                for label, raw in samples(20, seed=9):
                    try:
                        client.sendmail("ann@site.example", ["you@site.example"], raw)
                    except smtplib.SMTPDataError as error:
                        refused += error.smtp_code == 550
                        assert label == "spam"
            return refused

        assert await asyncio.to_thread(use) > 5


async def test_the_form_keeps_spam_out_and_learns_what_an_editor_says(tmp_path: Path) -> None:
    async with serving("web_form.py", tmp_path, "Running on") as port:

        def post(path: str, **fields: str) -> tuple[int, dict[str, Any]]:
            data = urllib.parse.urlencode(fields).encode()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, DEADLINE_SECONDS) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        def use() -> None:
            for n in range(20):
                post("/correct", text=f"cheap watches, click now, number {n}", label="spam")
                post("/correct", text=f"a question about your opening hours on day {n}", label="ham")

            assert post("/", text="cheap watches, click now, number 99")[0] == 422
            assert post("/", text="what are your opening hours on Sunday?")[1]["taken"]

        await asyncio.to_thread(use)


BAD_FORMS = [
    ("/", "application/x-www-form-urlencoded", b""),
    ("/", "application/x-www-form-urlencoded", b"label=spam"),
    ("/", "application/x-www-form-urlencoded", b"text=\xff"),
    ("/", "application/x-www-form-urlencoded; charset=none", b"text=a"),
    ("/", "application/json", b'{"text": "a"}'),
    ("/", "multipart/form-data; boundary=b", b"no part"),
    ("/", "multipart/form-data", b"no boundary"),
    (
        "/",
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="text"; filename="a"\r\n\r\na\r\n--b--\r\n',
    ),
    ("/correct", "application/x-www-form-urlencoded", b"label=spam"),
    ("/correct", "application/x-www-form-urlencoded", b"text=a"),
    ("/correct", "application/x-www-form-urlencoded", b"text=a&label=junk"),
]


async def test_the_form_answers_400_to_a_request_without_a_text_or_a_label(tmp_path: Path) -> None:
    async with serving("web_form.py", tmp_path, "Running on") as port:

        def status(path: str, content_type: str, body: bytes) -> int:
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", body, {"Content-Type": content_type}
            )
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(request, None, DEADLINE_SECONDS)
            error.value.close()
            return error.value.code

        assert [await asyncio.to_thread(status, *form) for form in BAD_FORMS] == [400] * len(BAD_FORMS)


def test_the_notebook_learns_a_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "texts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("label", "text"))
        rows.writerows((label, raw.partition(b"\n\n")[2].decode()) for label, raw in samples(200))
    notebook = json.loads((EXAMPLES / "learn_csv.ipynb").read_text())
    names: dict[str, Any] = {}

    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # as the notebook does it

    printed = capsys.readouterr().out
    assert re.search(r"of 20 texts: 0 ham lost, [0-3] spam missed", printed), printed
