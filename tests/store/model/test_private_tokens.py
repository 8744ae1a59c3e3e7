"""A model of private tokens is opened with its own key alone, and one in words never as private."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible
from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.file_model import FileModel
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature, is_former
from nbstream.store.transfer.archive import ArchiveReader, ArchiveWriter, archive_signature, new_header

KEY, OTHER = "00112233aabbccdd", "ffeeffeeffeeffee"


def model(client: Redis, key: str = "") -> Model:
    return Model(client, "test", 3600, key_fingerprint=key)


@pytest.mark.parametrize(
    ("begun", "opened", "says"),
    [
        ("", KEY, "stores words, and model.private_tokens asks for keyed hashes"),
        (KEY, "", f"stores keyed hashes. Set model.private_tokens to true, with the key file {KEY}"),
        (KEY, OTHER, f"stores keyed hashes under the key {KEY}, and the key file has {OTHER}"),
    ],
)
async def test_a_model_is_refused_that_hides_its_words_in_another_way(
    client: Redis, begun: str, opened: str, says: str
) -> None:
    await model(client, begun).open()
    before = await client.hgetall("nbstream:{test}:schema")
    for sign in (True, False):
        with pytest.raises(StoreIncompatible) as refused:
            await model(client, opened).open(sign=sign)
        assert says in str(refused.value)
    assert await client.hgetall("nbstream:{test}:schema") == before


async def test_a_model_of_private_tokens_is_opened_again_by_its_key_and_its_layer_too(client: Redis) -> None:
    await model(client, KEY).open()
    assert (await model(client, KEY).open(sign=False)).key_fingerprint == KEY
    await AutolearnModel(client, "test", 3600, KEY).open()
    with pytest.raises(StoreIncompatible, match="keyed hashes"):
        await AutolearnModel(client, "test", 3600).open()


async def test_a_release_without_private_tokens_refuses_such_a_model(client: Redis) -> None:
    """It compares the tokenizer with its own number, and says both."""
    await model(client, KEY).open()
    stored = await client.hget("nbstream:{test}:schema", "tokenizer")
    assert stored == f"{current_signature()['tokenizer']}-private-{KEY}".encode()


def test_a_file_is_refused_that_hides_its_words_in_another_way(tmp_path: Path) -> None:
    FileModel(tmp_path / "model", KEY).close()
    FileModel(tmp_path / "model", KEY).close()
    for key in ("", OTHER):
        with pytest.raises(StoreIncompatible, match=KEY):
            FileModel(tmp_path / "model", key)


@pytest.mark.parametrize(("exported", "imported"), [("", KEY), (KEY, ""), (KEY, OTHER)])
def test_an_archive_is_refused_that_hides_its_words_in_another_way(exported: str, imported: str) -> None:
    stream = BytesIO()
    ArchiveWriter(stream, new_header(archive_signature(exported), 0)).finish()
    stream.seek(0)
    ArchiveReader(stream, "FILE", archive_signature(exported))
    stream.seek(0)
    with pytest.raises(StoreIncompatible, match=r"^FILE holds (words|keyed hashes).*: nothing was imported$"):
        ArchiveReader(stream, "FILE", archive_signature(imported))


def test_a_former_tokenizer_is_migrated_under_the_same_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.store.model.signature.FORMER_TOKENIZERS", ("4",))
    ours = current_signature(KEY)
    assert is_former({**ours, "tokenizer": f"4-private-{KEY}"}, ours)
    for tokenizer in ("4", f"4-private-{OTHER}", f"3-private-{KEY}", ours["tokenizer"]):
        assert not is_former({**ours, "tokenizer": tokenizer}, ours)
