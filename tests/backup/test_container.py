"""The file of a backup: what is written is read, and all else is refused before anything happens."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.backup import files
from nbstream.backup.container import FIRST_NAME, LAST_NAME, ContainerReader, ContainerWriter
from nbstream.backup.keys import COPIED_KEYS, HISTORY, KeyRecord
from nbstream.backup.restoring import check_backup
from nbstream.backup.writing import FORMAT
from nbstream.config import Settings
from nbstream.errors import ConfigError, InputError, StoreIncompatible
from nbstream.store.model.keys import AutolearnKeys, ModelKeys, UserPageKeys
from nbstream.store.model.signature import current_signature
from nbstream.store.settings import ModelSettings
from nbstream.store.transfer.archive import ArchiveWriter, new_header

LONG = f"quarantine/new/1.{'h' * 200},I={'a' * 24}"
MEMBERS = {"imap/" + "a" * 32 + ".json": b"", LONG: b"x" * 3000, "spool/position": b"0" * 512}


def container(
    members: dict[str, bytes], header: dict[str, object] | None = None, own_models: dict[str, str] | None = None
) -> bytes:
    stream = io.BytesIO()
    writer = ContainerWriter(stream, header or {"format": FORMAT, "version": 1})
    for name, content in members.items():
        writer.add(name, io.BytesIO(content), 1.5)
    writer.finish({"own_models": own_models or {}, "left_out": []})
    return stream.getvalue()


def read(content: bytes) -> dict[str, bytes]:
    return {member.name: member.read() or b"" for member in ContainerReader(io.BytesIO(content), "FILE")}


def refusal(content: bytes) -> str:
    with pytest.raises((InputError, StoreIncompatible)) as raised:
        check_backup(Settings(), io.BytesIO(content), "FILE")
    return str(raised.value)


def test_members_come_back_and_tar_reads_them() -> None:
    content = container(MEMBERS)

    assert read(content) == MEMBERS
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == [FIRST_NAME, *MEMBERS, LAST_NAME]
        assert {name: tar.extractfile(name).read() for name in MEMBERS} == MEMBERS  # type: ignore[union-attr]


def test_a_file_cut_anywhere_or_with_a_changed_byte_is_refused() -> None:
    content = container(MEMBERS)

    for length in range(len(content)):
        with pytest.raises(InputError):
            read(content[:length])
    for position in range(10, len(content)):  # the header of gzip has a time and a system, which nobody reads
        changed = bytearray(content)
        changed[position] ^= 1
        with contextlib.suppress(InputError):
            assert read(bytes(changed)) == MEMBERS  # some bits of gzip mean nothing


def repacked(change: Callable[[tarfile.TarInfo], object]) -> bytes:
    """A backup whose first file has another header; its digests are those of its content."""
    source, target = io.BytesIO(container({"spool/position": b"0"})), io.BytesIO()
    with tarfile.open(fileobj=source) as tar, tarfile.open(fileobj=target, mode="w:gz") as other:
        for info in tar:
            file = tar.extractfile(info)
            assert file
            if info.name == "spool/position":
                change(info)
            other.addfile(info, file)
    return target.getvalue()


def link(info: tarfile.TarInfo, kind: bytes) -> None:
    info.type, info.linkname, info.size = kind, "/etc/passwd", 0


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_links_devices_and_folders_are_refused(kind: bytes) -> None:
    assert "a member is no plain file" in refusal(repacked(lambda info: link(info, kind)))


def test_an_extended_header_is_refused_before_it_is_read() -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    first = gzip.decompress(container({}))[:1024]

    assert "no plain file" in refusal(gzip.compress(first + info.tobuf(tarfile.GNU_FORMAT)))


def test_a_size_below_zero_and_long_names_without_end_are_refused() -> None:
    backwards, name = tarfile.TarInfo("x"), tarfile.TarInfo("x")
    backwards.size, name.type, name.size = -(1 << 20), tarfile.GNUTYPE_LONGNAME, 1
    first = gzip.decompress(container({}))[:1024]

    for more in (backwards.tobuf(tarfile.GNU_FORMAT), (name.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 2000):
        assert "cut, damaged, or no backup" in refusal(gzip.compress(first + more))


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "quarantine/new/../../evil",
        f"quarantine/new/1./../x,I={'a' * 24}",
        f"quarantine/new/1.x,I={'a' * 24}\n",
        f"quarantine/tmp/1.x,I={'a' * 24}",
        "quarantine/digests/lock",
        "spool/failed/spam/.hidden",
        "spool/failed/spam/..",
        "imap/x.json",
        "redis/appendonly.aof",
        "models/own-1.gz",
    ],
)
def test_a_name_that_no_backup_has_is_refused(name: str) -> None:
    assert not files.is_file_member(name)
    assert "has a member that no backup has" in refusal(container({name: b""}))


@pytest.mark.parametrize("name", [FIRST_NAME, LAST_NAME])
def test_a_list_that_is_small_in_the_file_and_large_in_memory_is_not_read(name: str) -> None:
    stream = io.BytesIO()
    writer = ContainerWriter(
        stream, {"format": FORMAT, "version": 1, "of": [[]] * (name == FIRST_NAME) * 1_000_000}
    )
    writer.finish({"own_models": {}, "left_out": [[]] * 1_000_000})
    tracemalloc.start()
    reason = refusal(stream.getvalue())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert reason == f"FILE: {name} is damaged"
    assert peak < 10 << 20


def test_another_format_or_version_is_refused_in_a_sentence() -> None:
    assert refusal(container({}, {"format": "eggs"})) == "FILE: no backup of nbstream"
    newer = refusal(container({}, {"format": FORMAT, "version": 2}))
    assert newer == "FILE is a backup of format 2, and this program reads format 1"
    assert "no backup of nbstream" in refusal(b"eggs")


def test_a_missing_key_of_private_tokens_is_asked_for_and_not_made(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, model=ModelSettings(private_tokens=True))

    with pytest.raises(ConfigError, match=r"the key of model\.private_tokens is in no backup: put it back first"):
        check_backup(settings, io.BytesIO(container({})), "FILE")

    assert not list(tmp_path.iterdir())


def test_a_backup_without_its_models_is_refused() -> None:
    assert "damaged" in refusal(container({}))


def archive() -> bytes:
    stream = io.BytesIO()
    writer = ArchiveWriter(stream, new_header(current_signature(), 0))
    writer.finish()
    return stream.getvalue()


PARTS = ("autolearned", "common")


@pytest.mark.parametrize(
    ("own_models", "parts"),
    [
        ({"common": "ann"}, PARTS),
        ({"own-000001": "ann"}, PARTS),
        ({"own-000001": "a/b/c"}, (*PARTS, "own-000001")),
        ({"own-000001": "ann", "own-000002": "ann"}, (*PARTS, "own-000001", "own-000002")),
    ],
)
def test_own_models_have_names_of_their_own(own_models: dict[str, str], parts: tuple[str, ...]) -> None:
    members = {f"models/{part}.gz": archive() for part in parts}

    assert "damaged, or written by another program" in refusal(container(members, own_models=own_models))


def test_a_backup_may_have_no_files() -> None:
    members = {f"models/{part}.gz": archive() for part in PARTS}

    assert not check_backup(Settings(), io.BytesIO(container(members)), "FILE").files


def test_what_follows_the_end_and_a_member_twice_are_refused() -> None:
    content = gzip.decompress(container(MEMBERS))
    without_end = content[: -(-len(content.rstrip(b"\0")) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE]

    with pytest.raises(InputError, match="something follows"):
        read(gzip.compress(content + b"x"))
    with pytest.raises(InputError, match="twice, or after its end"):
        read(gzip.compress(without_end + content))


RECORD = KeyRecord("common", "lists:of:ann", "hash", 5, [["a", "\udcff"]])


def test_a_record_of_a_key_comes_back() -> None:
    assert KeyRecord.unpack(RECORD.pack()) == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "counts:ham"},
        {"name": "ledger:x"},
        {"name": "importing"},
        {"name": "users:link-key"},
        {"name": "schema", "items": [["tokenizer", "9"]]},
        {"name": "schema", "kind": "string", "items": [["x"]]},
        {"name": HISTORY, "kind": "stream", "items": [["0-0", "a", "b"]]},
        {"milliseconds": 1 << 62},
        {"kind": "stream"},
        {"kind": "set"},
        {"items": [["a"]]},
        {"items": [["a", 1]]},
        {"items": []},
        {"kind": "zset", "items": [["nan", "a"]]},
        {"name": HISTORY},
        {"name": HISTORY, "kind": "stream", "items": [["1-1", "a"]]},
        {"name": HISTORY, "kind": "stream", "items": [["*", "a", "b"]]},
        {"milliseconds": "1"},
        {"part": None},
        {"more": 1},
    ],
)
def test_a_record_that_no_backup_has_is_refused(changes: dict[str, object]) -> None:
    fields = json.loads(RECORD.pack().decode("utf-8", "surrogateescape"))

    with pytest.raises(ValueError, match=r"no record of a key|not"):
        KeyRecord.unpack(json.dumps({**fields, **changes}).encode())


# Each kind of key is either in the archive of a model, or copied, or left out for a reason.
ARCHIVED = {"counts", "first_scores", "totals", "ledger", "ledger_pattern"}
COPIED = {
    *(
        "correspondents",
        "schema",
        "history",
        "digest_off",
        "sender_lists",
        "sender_list_owners",
        "sender_list",
        "user_labelled",
    ),
}
LEFT_OUT = {
    "changes": "mirrors begin anew",
    "sequence": "mirrors begin anew",
    "incoming": "programs send again what is not answered",
    "outgoing": "programs send again what is not answered",
    "dead_letters": "they are of the moment",
    "recent": "what is remembered of mail is gone in hours, and is as large as all else",
    "checked": "as recent",
    "rows": "as recent",
    "rows_to": "as recent",
    "row": "as recent",
    "page_link": "a secret that expires",
    "page_session": "a secret that expires",
    "link_key": "a secret: whoever has it could log in as any user",
    "attempts": "expires",
    "importing": "of the moment",
    "restoring": "of the moment",
    "staged": "of the moment",
    "staged_pattern": "of the moment",
    "epoch_key": "the layer is restored into the epoch that is current",
    "prefix": "no key",
    "all_epochs": "no key",
    "pattern": "no key",
    "log_name": "no key",
    "model": "no key",
    "epoch": "no key",
}


def test_it_is_decided_of_each_kind_of_key_whether_a_backup_has_it() -> None:
    kinds = {name for keys in (ModelKeys, UserPageKeys, AutolearnKeys) for name in vars(keys)} | set(
        dir(ModelKeys)
    )
    decided = ARCHIVED | COPIED | set(LEFT_OUT)

    assert {name for name in kinds if not name.startswith("_")} == decided
    assert len(decided) == len(ARCHIVED) + len(COPIED) + len(LEFT_OUT)
    assert len(COPIED_KEYS) == len({pattern.rstrip("*") for pattern in COPIED_KEYS})


def test_only_files_that_this_program_writes_are_copied(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "position").write_text("0")
    (spool / "append.lock").touch()
    (spool / "000000000001.messages").symlink_to("/etc/passwd")

    assert [name for name, _, _ in files.read_files(settings)] == ["spool/position"]


def test_what_lies_behind_a_link_in_the_state_is_not_copied(tmp_path: Path) -> None:
    """The daemon's user makes the link, and root runs the command."""
    secret = tmp_path / "root"
    secret.mkdir()
    (secret / "shadow").write_text("secret")
    failed = tmp_path / "state" / "spool" / "failed"
    failed.mkdir(parents=True)
    (failed / "spam").symlink_to(secret)
    (failed / "ham").mkdir()
    (failed / "ham" / "shadow").symlink_to(secret / "shadow")
    (failed / "ham" / "1").write_text("mail")

    read = list(files.read_files(Settings(state_dir=tmp_path / "state")))

    assert [(name, content) for name, content, _ in read] == [("spool/failed/ham/1", b"mail")]
