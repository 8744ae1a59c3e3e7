"""Commands and daemons in processes that are forked from one that has loaded nbstream.

An interpreter that starts and loads takes most of a command's time, and tests run hundreds of commands.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from nbstream.cli.main import main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.harness.loaded_commands", __name__])


def run_forked(words: list[str], given: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run ``nbstream`` with these words and this standard input, in this folder and with this environment."""
    with tempfile.TemporaryDirectory() as name:
        files = [str(Path(name, stream)) for stream in ("stdin", "stdout", "stderr")]
        Path(files[0]).write_text(given)
        process = _CONTEXT.Process(target=_begin, args=(words, dict(os.environ), str(Path.cwd()), files))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, seconds)
        output, errors = (Path(file).read_text() for file in files[1:])
        return subprocess.CompletedProcess(["nbstream", *words], process.exitcode, output, errors)


class ForkedDaemon:
    """``nbstream`` with these words, as ``subprocess.Popen`` would run it with its standard error in a pipe."""

    def __init__(self, words: list[str]) -> None:
        reader, writer = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(
            target=_serve, args=(words, dict(os.environ), str(Path.cwd()), writer), daemon=False
        )
        self._process.start()
        writer.close()
        self.stderr = os.fdopen(os.dup(reader.fileno()), "rb")
        reader.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("nbstream", seconds)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def _serve(words: list[str], environment: dict[str, str], folder: str, errors: Connection) -> None:
    os.dup2(errors.fileno(), 2)
    errors.close()
    _begin(words, environment, folder, [os.devnull, os.devnull])


def _begin(words: list[str], environment: dict[str, str], folder: str, files: list[str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate(files):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = ["nbstream", *words]
    sys.exit(main())
