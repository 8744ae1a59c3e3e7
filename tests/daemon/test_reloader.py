"""Reading the file anew: one reload at a time, all of it or nothing, and an answer that says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.daemon import config
from nbstream.daemon.config import Settings
from nbstream.daemon.metrics import ProcessMetrics
from nbstream.daemon.reloader import Reloader
from nbstream.metrics import MetricsRegistry


class FakeServer(ProcessMetrics):
    """Applies settings, and counts the outcomes of reloads."""

    def __init__(self) -> None:
        super().__init__(MetricsRegistry(), "python")
        self.applied: list[Settings] = []
        self.outcomes: list[bool] = []
        self.fault: Exception | None = None

    async def apply(self, settings: Settings) -> None:
        if self.fault:
            raise self.fault
        self.applied.append(settings)

    def reloaded(self, applied: bool) -> None:
        self.outcomes.append(applied)


def reloader_of(settings: Settings, server: FakeServer) -> Reloader:
    return Reloader(settings, server.apply, server)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nbstream.yaml"
    path.write_text("verdict: {spam: 0.9}\n")
    return path


async def test_the_answer_says_what_changed_and_what_waits(file: Path) -> None:
    server = FakeServer()
    reloader = reloader_of(config.load_settings(file), server)
    file.write_text("verdict: {spam: 0.8}\nmodel: {name: other}\n")

    answer = await reloader.reload()

    assert (answer.changed, answer.waiting, answer.problems) == (("verdict.spam",), ("model.name",), ())
    assert answer.policy == config.policy_hash(reloader.settings)
    assert server.applied == [reloader.settings]
    assert (reloader.settings.verdict.spam, reloader.settings.model.name) == (0.8, "default")
    assert (await reloader.reload()).changed == ()
    assert (await reloader.reload()).waiting == ("model.name",)


async def test_changed_aliases_are_said_although_no_setting_has_changed(file: Path, tmp_path: Path) -> None:
    aliases = tmp_path / "aliases"
    aliases.write_text("sales@x.example ann@x.example\n")
    file.write_text(f"own_models: {{alias_file: {aliases}}}\n")
    reloader = reloader_of(config.load_settings(file), FakeServer())
    assert (await reloader.reload()).changed == ()
    aliases.write_text("sales@x.example ben@x.example\n")

    assert (await reloader.pending()).changed == ("own_models.alias_file",)
    assert (await reloader.reload()).changed == ("own_models.alias_file",)
    assert (await reloader.reload()).changed == ()
    aliases.write_text("sales@x.example ben carl\n")
    assert "own_models.alias_file cannot be used" in (await reloader.pending()).problems[0]


async def test_what_a_reload_would_do_is_said_and_not_done(file: Path) -> None:
    server = FakeServer()
    reloader = reloader_of(config.load_settings(file), server)
    before = reloader.settings
    file.write_text("verdict: {spam: 0.8}\nmodel: {name: other}\n")

    pending = await reloader.pending()

    assert (pending.changed, pending.waiting, pending.problems) == (("verdict.spam",), ("model.name",), ())
    assert (reloader.settings, server.applied, server.outcomes) == (before, [], [])
    file.write_text("verdict: {spam: none}\n")
    (problem,) = (await reloader.pending()).problems
    assert "verdict.spam" in problem
    assert server.outcomes == []


async def test_one_error_anywhere_changes_nothing(file: Path) -> None:
    server = FakeServer()
    reloader = reloader_of(config.load_settings(file), server)
    before = reloader.settings
    file.write_text("verdict: {spam: 0.8}\nlimits:\n  max_connections: none\n")

    answer = await reloader.reload()

    assert answer.problems == (
        f"{file}:3: limits.max_connections: found 'none', must be a whole number, without quotes",
    )
    assert answer.policy == config.policy_hash(before)
    assert (reloader.settings, server.applied, server.outcomes) == (before, [], [False])


async def test_a_fault_while_applying_changes_nothing_and_the_next_reload_works(file: Path) -> None:
    server = FakeServer()
    reloader = reloader_of(config.load_settings(file), server)
    file.write_text("verdict: {spam: 0.8}\n")
    server.fault = RuntimeError("broken")

    assert (await reloader.reload()).problems == ("an internal error; see the log",)
    assert reloader.settings.verdict.spam == 0.9

    server.fault = None
    assert (await reloader.reload()).changed == ("verdict.spam",)
    assert server.outcomes == [False, True]


async def test_a_file_that_was_removed_changes_nothing(file: Path) -> None:
    server = FakeServer()
    reloader = reloader_of(config.load_settings(file), server)
    file.unlink()

    assert (await reloader.reload()).problems == (f"{file}: must be a readable file (No such file or directory)",)


async def test_the_file_is_the_one_of_the_start_wherever_the_daemon_is_now(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = FakeServer()
    reloader = reloader_of(config.load_settings(Path("nbstream.yaml")), server)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("nbstream.yaml").write_text("verdict: {spam: 0.7}\n")
    file.write_text("verdict: {spam: 0.8}\n")

    answer = await reloader.reload()

    assert (answer.file, reloader.settings.verdict.spam) == (str(file), 0.8)


async def test_without_a_file_at_the_start_the_usual_places_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("nbstream.daemon.config.loading.SYSTEM_FOLDER", tmp_path / "none")
    server = FakeServer()
    reloader = reloader_of(config.load_settings(config.find_config_file(None)), server)
    assert (reloader.file, (await reloader.reload()).file) == (None, None)

    (tmp_path / "nbstream.yaml").write_text("verdict: {spam: 0.8}\n")
    answer = await reloader.reload()
    assert (answer.file, answer.changed) == (str(tmp_path / "nbstream.yaml"), ("verdict.spam",))

    (tmp_path / "nbstream.yaml").unlink()
    assert (await reloader.reload()).changed == ("verdict.spam",)
    assert reloader.file is None
