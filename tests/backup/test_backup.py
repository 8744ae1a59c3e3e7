"""A backup of a site while mail and lessons go on, and its restore in another layout."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.backup.restoring import check_backup, restore_backup
from nbstream.cli.imap.positions import PositionFiles
from nbstream.cli.message_files import FolderPosition
from nbstream.delivery.quarantine import Quarantine, mark_in_doubt
from nbstream.errors import InputError
from nbstream.listeners.dovecot.spool import MessageSpool, SpooledMessage, measure_backlog
from nbstream.policy.sender_lists import ListKind
from nbstream.policy.sender_patterns import SenderPattern
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.embedded.locks import lock_daemon
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.model import Model
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.users.digest_state import DigestMarker, DigestState
from nbstream.users.preferences import UserPreferences
from tests.backup.sites import ANN, BOB, OWN_MODELS, Site
from tests.backup.test_container import PARTS, archive, container
from tests.conftest import RedisServer
from tests.letters import write_corpus
from tests.store.algebra import NOTHING, first_scores, live_entries, stored, summed
from tests.store.proxy import Fate, Proxy

NOTE = LessonNote("cli", "user root", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))


async def state_of(site: Site) -> dict[str, Any]:
    """All that has to be the same after a restore: by model counts, totals, ledger, first scores and history."""
    state: dict[str, Any] = {}
    async with site.models() as models:
        for name, model in models.items():
            history = await model.client.xrange(model.keys.history)
            state[name] = (
                await stored(model),
                await live_entries(model),
                await first_scores(model),
                history,
            )
        keys = ModelKeys(site.settings.model.name)
        state["correspondents"] = await models["common"].client.xrange(keys.correspondents)
        for key in (keys.digest_off, keys.sender_lists, keys.sender_list("site"), keys.sender_list(ANN)):
            state[key.partition("}")[2]] = await models["common"].client.hgetall(key)
    return state


async def assert_exact(model: Model) -> None:
    """The counts are the sums of the ledger, and nothing is left when each lesson is unlearned."""
    assert await stored(model) == await summed(model)
    for key, entry in (await live_entries(model)).items():
        await model.commit_lesson(key, entry, None, NOTE)
    assert await stored(model) == NOTHING


def model_settings(name: str) -> dict[str, Any]:
    return {"name": name, "min_learned": {"spam": 1, "ham": 1}}


@pytest.fixture
async def old(tmp_path: Path, shared_redis: RedisServer, client: Redis) -> Site:
    """A site with a Redis of its own, which was taught by people, by users and without people."""
    site = Site(
        tmp_path / "old",
        redis={"url": shared_redis.url},
        model=model_settings("test"),
        **OWN_MODELS,
    )
    await site.teach(30, 1)
    await site.teach(4, 2, ANN)
    await site.teach(5, 3, BOB)
    await site.teach_layer(6, 4)
    for number in range(3):
        await site.hold_back(number)
    mark_in_doubt(Quarantine(site.settings.quarantine_folder).messages()[0])
    lists = StoredSenderLists(client, ModelKeys("test"))
    await lists.add("site", ListKind.ALLOW, SenderPattern.parse("boss@example.com"), "user root")
    await lists.add(ANN, ListKind.BLOCK, SenderPattern.parse("*@example.net"), "user ann")
    await client.xadd(ModelKeys("test").correspondents, {"a hash": b"\xff\x00"})
    await UserPreferences(client, ModelKeys("test")).set_digest(BOB, wanted=False)
    digests = DigestState(site.settings.quarantine_folder / "digests")
    with digests.locked():
        digests.set_marker(ANN, DigestMarker(1.5, 2.5))
    PositionFiles(site.state, "test", "spam").write(FolderPosition("imaps://ann@mx/Junk", 7, 9))
    spool = MessageSpool(site.state / "spool", 1 << 30)
    await spool.add(SpooledMessage("spam", "user ann", 1, b"Subject: waits\n\n"))
    await spool.close()
    return site


@pytest.fixture
def new(tmp_path: Path) -> Site:
    """Another state folder, with the embedded Redis and another name of the model."""
    model, held = model_settings("other"), {"path": str(tmp_path / "new/held")}
    return Site(tmp_path / "new", model=model, quarantine=held, **OWN_MODELS)


async def test_a_site_is_the_same_in_another_layout(old: Site, new: Site, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar.gz"
    corpus = write_corpus(tmp_path / "mail", 20).parent

    said = await old("backup", file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert f"own model {ANN}: " in said
    assert await new("restore", "--list", file) == said
    assert not new.state.exists()
    restored = await new("restore", file)
    assert restored.startswith(said)
    assert "not in it: the key of the links in digests" in restored
    assert "restored into model 'other' and " in restored
    assert await state_of(new) == await state_of(old)
    held = Quarantine(new.settings.quarantine_folder)
    assert [m.in_doubt for m in held.messages()] == [
        m.in_doubt for m in Quarantine(old.settings.quarantine_folder).messages()
    ]
    folder = new.settings.quarantine_folder
    assert {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*/*")} == {
        name: content for name, content in old.files("Quarantine").items() if name != "digests/lock"
    }
    assert measure_backlog(new.state / "spool") == measure_backlog(old.state / "spool")
    assert new.files("imap") == old.files("imap")
    for user in ([], ["--user", ANN]):
        checks = [(await (await s.start("check", "--json", *user, corpus)).communicate())[0] for s in (old, new)]
        assert checks[0] == checks[1] != b""
    statuses = [json.loads(await site("status", "--json")) for site in (old, new)]
    same = ("learned", "tokens", "autolearned", "own_models", "spam_from", "state")
    assert [statuses[0][name] for name in same] == [statuses[1][name] for name in same]


async def test_a_backup_while_mail_and_lessons_go_on_is_exact(old: Site, new: Site, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar.gz"
    before = set(old.files("Quarantine/new"))
    process = await old.start("backup", file)

    async def go_on() -> None:
        for seed in itertools.count(100):
            await old.teach(5, seed)
            await old.teach(3, seed, ANN)
            await old.teach_layer(3, seed)
            await old.hold_back(seed)

    lessons = asyncio.create_task(go_on())
    _, err = await process.communicate()
    await cancel_and_wait(lessons)

    assert process.returncode == 0, err
    await new("restore", file)
    held = {path.name: path.read_bytes() for path in (new.settings.quarantine_folder / "new").iterdir()}
    assert before <= set(held)
    assert held.items() <= old.files("Quarantine/new").items()
    async with new.models() as models:
        assert set(models) == {"common", "layer", ANN, BOB}
        for model in models.values():
            assert await model.totals() != await Model(model.client, "nothing", 1).totals()
            await assert_exact(model)


class Killer:
    """Kills a command with its request to Redis of number ``limit``, before that reaches Redis."""

    def __init__(self) -> None:
        self.kills = 0
        self._process: asyncio.subprocess.Process | None = None
        self._left = 0

    async def decide(self, request: bytes) -> Fate:
        self._left -= 1
        if self._left or self._process is None:
            return Fate.PASS
        self._process.kill()
        return Fate.LOSE_REQUEST

    async def survives(self, limit: int, site: Site, command: str, file: Path) -> bool:
        """Whether the command comes to its end; it succeeds then."""
        self._process, self._left = await site.start(command, file), limit
        _, err = await self._process.communicate()
        survived, self._process = self._process.returncode != -9, None
        assert not survived or not err, err.decode()
        self.kills += not survived
        return survived


async def test_a_backup_that_is_killed_leaves_the_one_before(old: Site, tmp_path: Path) -> None:
    file, killer, url = tmp_path / "backup.tar.gz", Killer(), old.settings.redis.url.get_secret_value()
    await old("backup", file)
    before = file.read_bytes()

    async with Proxy(Path(url.removeprefix("unix://")), tmp_path / "proxy.sock", killer.decide) as proxy:
        old.config.write_text(old.config.read_text().replace(url, proxy.url))
        for limit in itertools.count(5, 30):
            if await killer.survives(limit, old, "backup", file):
                break
            assert file.read_bytes() == before

    assert killer.kills > 1
    assert file.read_bytes() != before


async def test_a_restore_that_is_killed_again_and_again_goes_on(
    old: Site, tmp_path: Path, own_redis: RedisServer
) -> None:
    file, killer = tmp_path / "backup.tar.gz", Killer()
    await old("backup", file)

    async with Proxy(own_redis.socket, tmp_path / "proxy.sock", killer.decide) as proxy:
        redis = {"url": proxy.url}
        new = Site(tmp_path / "new", redis=redis, model=model_settings("other"), **OWN_MODELS)
        for limit in itertools.count(10, 30):
            if await killer.survives(limit, new, "restore", file):
                break
            async with new.redis() as clients:
                async for key in clients.client.scan_iter("*:importing"):
                    state: Any = await clients.client.get(key)
                    if state.startswith(b"staging"):
                        await clients.client.delete(key)  # as it is after a minute

        assert killer.kills > 2
        assert await state_of(new) == await state_of(old)
        assert new.files("Quarantine/new") == old.files("Quarantine/new")
        async with new.models() as models:
            assert not await models["common"].client.exists(models["common"].keys.restoring)
            for restored in models.values():
                await assert_exact(restored)


async def test_a_site_that_is_not_empty_is_refused_and_nothing_is_changed(
    old: Site, new: Site, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tar.gz"
    await old("backup", file)
    before = await state_of(old)

    said = await old("restore", file, code=78)

    assert "not empty: the counts of model 'test', the autolearned counts of model 'test'" in said
    assert f"own models, quarantine {old.settings.quarantine_folder}, spool {old.state / 'spool'}. Nothing" in said
    assert await state_of(old) == before
    new.settings.quarantine_folder.joinpath("new").mkdir(parents=True)
    (new.settings.quarantine_folder / "new/1.M1.host,I=aaaaaaaaaaaaaaaaaaaaaaaa").write_bytes(b"")
    assert "not empty: quarantine " in await new("restore", file, code=78)


async def test_nothing_is_restored_below_a_daemon_that_runs(old: Site, new: Site, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar.gz"
    await old("backup", file)

    with lock_daemon(new.state):
        said = await new("restore", file, code=75)

    assert f"a daemon (pid {os.getpid()}) runs on state_dir {new.state}: stop it and try again" in said
    assert [path.name for path in new.state.iterdir()] == ["daemon.lock"]


async def test_a_file_that_is_changed_after_its_check_is_refused(new: Site) -> None:
    models = {f"models/{part}.gz": archive() for part in PARTS}
    contents = check_backup(new.settings, io.BytesIO(container(models)), "FILE")
    changed = io.BytesIO(container({**models, "spool/../evil": b"x", "spool/position": b"7"}))

    async with new.redis() as clients:
        with pytest.raises(InputError, match="FILE: was changed after it had been checked"):
            await restore_backup(new.settings, clients, contents, changed, "FILE")

    assert not (new.state / "evil").exists()


async def test_a_message_with_the_longest_of_names_is_restored(new: Site, tmp_path: Path) -> None:
    name, file = f"spool/failed/spam/{'x' * 255}", tmp_path / "backup.tar.gz"
    file.write_bytes(container({f"models/{part}.gz": archive() for part in PARTS} | {name: b"Subject: x"}))

    await new("restore", file)

    assert new.files("spool/failed") == {f"spam/{'x' * 255}": b"Subject: x"}


async def test_a_pipe_is_refused_since_the_file_is_read_twice(new: Site, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    descriptor = os.open(pipe, os.O_RDWR)
    try:
        said = await new("restore", pipe, code=66)
    finally:
        os.close(descriptor)

    assert "is read twice, which no pipe can be: copy it to a file first" in said
