"""``nbstream reload``: the command says what the daemon did, and of which file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nbstream.cli.main import main
from nbstream.server.control_socket import ControlListener


@contextmanager
def daemon_that_reads(state_dir: Path, file: str | None) -> Iterator[None]:
    """A control socket that answers as a daemon does which reads this file (None: it found no file)."""
    loop = asyncio.new_event_loop()
    reloaded: dict[str, object] = {"file": file, "policy": "abc", "problems": [], "changed": [], "waiting": []}

    handlers = dict.fromkeys(("reload", "policy"), lambda send: send(reloaded))
    control = ControlListener(handlers, loop.add_reader, loop.remove_reader)
    control.start(state_dir)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        control.close()
        loop.close()


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    file = tmp_path / "nb.yaml"
    file.write_text(f"state_dir: '{tmp_path}'\n")
    return file


def test_the_file_that_was_applied_is_named(
    configuration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with daemon_that_reads(tmp_path, str(configuration)):
        assert main(["reload", "-c", str(configuration)]) == 0

    assert f"{configuration}: applied, policy abc" in capsys.readouterr().out
