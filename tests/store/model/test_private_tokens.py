"""A model of private tokens is opened with its own key alone, and one in words never as private."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible
from nbstream.store.model.file_model import FileModel
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer.archive import ArchiveHeader, ArchiveReader, ArchiveWriter

KEY, OTHER = "00112233aabbccdd", "ffeeffeeffeeffee"


def model(client: Redis, key: str = "") -> Model:
    return Model(client, "test", 3600, key_fingerprint=key)


@pytest.mark.parametrize(
    ("begun", "opened", "says"),
    [
        ("", KEY, f"has tokens in words, and the configuration asks for private tokens under the key {KEY}"),
        (KEY, "", f"has private tokens under the key {KEY}, and the configuration asks for tokens in words"),
        (
            KEY,
            OTHER,
            f"under the key {KEY}, and the configuration asks for private tokens under the key {OTHER}",
        ),
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


async def test_a_model_of_private_tokens_is_opened_again_by_its_key(client: Redis) -> None:
    await model(client, KEY).open()
    assert (await model(client, KEY).open(sign=False)).key_fingerprint == KEY


def test_a_file_is_refused_that_hides_its_words_in_another_way(tmp_path: Path) -> None:
    FileModel(tmp_path / "model", KEY).close()
    FileModel(tmp_path / "model", KEY).close()
    for key in ("", OTHER):
        with pytest.raises(StoreIncompatible, match=KEY):
            FileModel(tmp_path / "model", key)


@pytest.mark.parametrize(("exported", "imported"), [("", KEY), (KEY, ""), (KEY, OTHER)])
def test_an_archive_is_refused_that_hides_its_words_in_another_way(exported: str, imported: str) -> None:
    stream = BytesIO()
    ArchiveWriter(stream, ArchiveHeader(current_signature(exported))).finish()
    stream.seek(0)
    ArchiveReader(stream, "FILE", current_signature(exported))
    stream.seek(0)
    with pytest.raises(StoreIncompatible, match=r"^FILE has (tokens in words|private tokens).*nothing was"):
        ArchiveReader(stream, "FILE", current_signature(imported))
