"""A model that is imported under a running daemon, which scores mail and puts lessons off meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.integration.test_full import KNOWN, configure, letter, told
from tests.integration.test_life import send

SPAM, HAM = "spam@nbstream.invalid", "ham@nbstream.invalid"


@pytest.fixture
def exported(tmp_path: Path, redis_binary: Path) -> Path:
    """The model of a daemon that was taught four messages; one of them was relearned all the while."""
    folder = tmp_path / "old"
    folder.mkdir()
    config = configure(folder, folder / "state")
    stop = threading.Event()

    def teach(daemon: DaemonProcess) -> None:
        while not stop.is_set():
            send(daemon, letter(100), SPAM)
            send(daemon, letter(100), HAM)

    with DaemonProcess(config) as daemon:
        for number in (0, 1, 2, 100):
            assert send(daemon, letter(number), SPAM).startswith("250 ")
        teacher = threading.Thread(target=teach, args=(daemon,))
        teacher.start()
        try:
            out = command("export", "-c", config, folder / "model.gz")
        finally:
            stop.set()
            teacher.join()
        assert out.returncode == 0, out.stderr
    return folder / "model.gz"


def test_a_daemon_follows_an_import(tmp_path: Path, exported: Path) -> None:
    config = configure(tmp_path, tmp_path / "state")
    with DaemonProcess(config) as daemon:
        imported = command("import", "-c", config, exported)

        assert imported.returncode == 0, imported.stderr
        wait_until(lambda: daemon.metric(KNOWN) + daemon.metric('nbstream_model_messages{class="ham"}') == 4)
        wait_until(lambda: len(told(daemon, "counts loaded")) > 1)
        assert " already learned as spam" in send(daemon, letter(1), SPAM)
        assert send(daemon, letter(2)).startswith("250 ")
        assert command("import", "-c", config, exported).returncode == 78
        letters = "".join(
            f"From x Sat Nov 21 10:00:00 2026\n{letter(number).decode()}\n" for number in (0, 1, 2, 100)
        )
        # The export has letter 100 as the one or the other: it was taught as both in turns.
        unlearned = command("unlearn", "-c", config, "-", input=letters).stdout
        assert unlearned.startswith(("4 unlearned from spam; ", "1 unlearned from ham, 3 unlearned from spam; "))
        wait_until(lambda: daemon.metric("nbstream_model_tokens") == 0)
        assert daemon.metric(KNOWN) == 0
