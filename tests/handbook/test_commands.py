"""The commands of the handbook run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from nbstream.cli.command_line import build_parser
from nbstream.daemon.config import load_settings
from nbstream.demo.mail import labelled_mail
from tests.harness.daemon import DaemonProcess
from tests.harness.handbook_pages import PAGES, README, ROOT, fenced, indented, name_of, page, paste, run, section
from tests.harness.redis.access import Certificates

SHOWN = [
    (name_of(path), line)
    for path in PAGES
    for line in [*indented(path.read_text()), *"".join(fenced(path.read_text())).splitlines()]
    if re.match(r"nbstream [a-z]", line)
]


@pytest.mark.parametrize(("name", "line"), SHOWN)
def test_every_command_line_that_is_shown_is_understood(name: str, line: str) -> None:
    _, *words = shlex.split(re.split(r" > |\|\|", line)[0], comments=True)

    build_parser().parse_args(words)


def steps_printed(text: str, folder: Path) -> str:
    """What the first steps of a page print, with a daemon that has learned nothing."""
    state = folder / ".local/state/nbstream"
    (folder / "nbstream.yaml").write_text(
        f"state_dir: {state}\nlisteners: {{smtp: {{listen: 127.0.0.1:0}}, http: null}}\nlog: {{format: json}}\n"
    )
    with DaemonProcess(folder / "nbstream.yaml") as daemon:
        return run(
            "\n".join(fenced(text, "sh")).replace("10025", daemon.address("smtp").rpartition(":")[2]), folder
        )


@pytest.fixture(params=["installed", pytest.param("fresh", marks=pytest.mark.soak)])
def clone(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a clone has, and the native library, where it is built; fresh, or after `make test`."""
    made_here = ".git", ".venv*", ".*_cache", ".hypothesis", ".fuzz", "__pycache__", "target", "dist", "site"
    folder = shutil.copytree(ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(*made_here))
    if request.param == "installed" and Path(sys.prefix, "run.stamp").exists():
        (folder / ".venv").symlink_to(sys.prefix)
        for name in ("pyproject.toml", ".ci/constraints.txt"):
            os.utime(folder / name, (0, 0))  # so that nothing is installed into what the tests run in
    return folder


@contextmanager
def made(command: str, clone: Path, home: Path, until: str) -> Iterator[None]:
    """Run a command of make in the clone until it has printed this, and what follows beside it; Ctrl-C ends it."""
    words = shlex.split(command.partition("#")[0])
    environment = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "MAKEFLAGS"}}
    process = subprocess.Popen(
        words,
        cwd=clone,
        env={**environment, "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    try:
        printed = ""
        while until not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        yield
    finally:
        os.killpg(process.pid, signal.SIGINT)
        with process:  # until all that it started has ended
            process.stdout.read()


@pytest.mark.timeout(600)  # pip installs what the daemon needs
def test_each_command_of_the_readme_works_as_pasted_in_a_clone(
    clone: Path, tmp_path: Path, redis_binary: Path
) -> None:
    text = README.read_text()
    demo, run_daemon = (line for line in indented(section(text, "See it")) if line.startswith("make "))
    first, teach, measure = fenced(section(text, "First steps"), "sh")
    (library,) = fenced(text, "python")
    assert re.findall(r"^(?: {4}|\$ )?nbstream [a-z].*", text, re.MULTILINE) == [
        line for block in (first, teach, measure) for line in block.splitlines() if line.startswith("nbstream ")
    ]
    configuration = tmp_path / ".config/nbstream/nbstream.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\n")
    for folder in (".Junk/cur", ".Junk/new", ".Archive/cur", ".Archive/new", "cur", "new"):
        (tmp_path / "Maildir" / folder).mkdir(parents=True)
    for number, mail in enumerate(islice(labelled_mail(1), 140)):
        folder = {"spam": ".Junk/cur", "ham": ".Archive/cur"}[mail.label or ""] if number < 130 else "new"
        (tmp_path / "Maildir" / folder / str(number)).write_bytes(mail.raw)

    with made(demo, clone, tmp_path, "http://"):
        printed = paste(first, clone, home=tmp_path)
    with made(run_daemon, clone, tmp_path, "http://"):
        lines = teach.splitlines()
        taught = "".join(f"{line}; echo exit $?\n" for line in lines)
        answers = paste(taught, clone, home=tmp_path)
    measured = paste(measure, clone, home=tmp_path)
    used = paste(f". .venv/bin/activate\npython3 - <<'END'\n{library}END\n", clone, home=tmp_path)

    assert re.search(r"^  spam +[01]\.", printed, re.MULTILINE)
    assert re.search(r"^  ham +[01]\.", printed, re.MULTILINE)
    codes = [int(code) for code in re.findall(r"^exit (\d+)$", answers, re.MULTILINE)]
    assert codes == [int(line.startswith("nbstream check")) for line in lines], answers  # there is spam
    assert re.search(r"^spam +[01]\.\d+ +\S+/Maildir/new/13\d ", answers, re.MULTILINE), answers
    assert "http://127.0.0.1:" in answers
    assert "spam" in measured
    assert used == "unsure\n"


def test_the_first_steps_of_the_tutorial_work_as_they_stand(tmp_path: Path, redis_binary: Path) -> None:
    printed = steps_printed(page("tutorial.md"), tmp_path)

    assert "1 learned as ham" in printed
    assert "prize.eml  (learning 2/100)" in printed
    assert "spam 1/50, ham 1/50" in printed
    assert "body:prize" in printed


def test_the_example_of_the_http_api_works_as_it_stands(tmp_path: Path, redis_binary: Path) -> None:
    (example,) = fenced(page("guides/programs.md"), "bash")
    (tmp_path / "message.eml").write_text("Subject: prize\n\nClaim your free prize now\n")
    (tmp_path / "nbstream.yaml").write_text(
        f"state_dir: {tmp_path / 'state'}\nlisteners: {{smtp: null, http: {{listen: 127.0.0.1:0}}}}\n"
        "log: {format: json}\n"
    )
    with DaemonProcess(tmp_path / "nbstream.yaml") as daemon:
        printed = run(example.replace("127.0.0.1:11334", daemon.address("http")), tmp_path)

    answers = re.findall(r'"(?:verdict|outcome|type)": ?"([^"]*)"', printed)
    assert [answer for answer in answers if answer in {"learned", "unlearned"}] == ["learned", "unlearned"], (
        printed
    )
    assert answers.count("unsure") >= 2


def test_mail_of_other_users_is_learned_in_one_call_as_its_files_are(tmp_path: Path, redis_binary: Path) -> None:
    (recipe,) = fenced(page("guides/teach-old-mail.md"), "sh")
    folder = tmp_path / ".Junk"
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True)
    for number, text in enumerate(
        (
            b"Claim your prize\n",
            b"From here on\n\nFrom noon at 12:00\n>From now\n>>From then\n",
            b"the end has no line feed",
            b"lines\r\n\r\nFrom Mon 10:00\r\n\r\n",
            b"\xff\xfe in no charset \xe9\n\n\n",
        )
    ):
        (folder / f"cur/{number}:2,S").write_bytes(b"Subject: %d\nFrom: ann@example.org\n\n%b" % (number, text))
    (tmp_path / "nbstream.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    recipe = recipe.replace("/home/ann/Maildir/.Junk", str(folder))
    recipe = recipe.replace("runuser -u nbstream -- /opt/nbstream/bin/", "")

    assert "5 learned as spam" in run(recipe, tmp_path)
    assert "5 already" in run(f"nbstream learn spam {folder}", tmp_path)


CONFIGURATIONS = [(name_of(path), block) for path in PAGES for block in fenced(path.read_text(), "yaml")]


@pytest.mark.parametrize(("name", "block"), CONFIGURATIONS)
def test_the_configurations_that_are_shown_are_accepted(
    name: str, block: str, tmp_path: Path, program: Callable[[str], str]
) -> None:
    if "tls_cert_file" in block:
        files = Certificates.make(program("openssl"), tmp_path)
        for shown, path in (("cert", files.certificate), ("key", files.key)):
            block = block.replace(f"/etc/nbstream/{shown}.pem", str(path))
    for path in re.findall(r"_file: /etc/nbstream/(\S+)", block):  # secrets
        (tmp_path / path).write_text("secret\n")
    (tmp_path / "nbstream.yaml").write_text(block.replace("/etc/nbstream", str(tmp_path)))

    load_settings(tmp_path / "nbstream.yaml")
