"""``nbstream.web.users.links``: what a token says, and what is refused; the key in a real Redis."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.store.model.keys import ModelKeys
from nbstream.web.users.links import LinkKeys, LinkPurpose, LinkSigner, SignedLink
from tests.harness.redis.redis_server import RedisServer

NOW = 1_800_000_000
ENDS_AT = NOW + 3600
ID = "abcdefghijklmnopqrstuvwx"
SIGNER = LinkSigner(b"k" * 32)
LINK = SignedLink(LinkPurpose.RELEASE, "ann@example.org", ENDS_AT, ID)
TOKEN = SIGNER.sign(LINK)

addresses = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
links = st.builds(
    SignedLink, st.sampled_from(LinkPurpose), addresses, st.integers(NOW + 1, 2**63), st.sampled_from(["", ID])
)


@given(links)
@example(SignedLink(LinkPurpose.LOGIN, "b\udcffb@example.org", ENDS_AT))
def test_a_token_says_what_was_signed(link: SignedLink) -> None:
    token = SIGNER.sign(link)
    assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert SIGNER.read(token, link.purpose, NOW) == link


@given(links, st.data())
def test_any_changed_character_is_refused(link: SignedLink, data: st.DataObject) -> None:
    token = SIGNER.sign(link)
    position = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("ABCxyz019-_=+/ .\n\0é").filter(lambda c: c != token[position]))
    altered = token[:position] + character + token[position + 1 :]
    assert SIGNER.read(altered, link.purpose, NOW) is None


@pytest.mark.parametrize("purpose", [p for p in LinkPurpose if p is not LinkPurpose.RELEASE])
def test_a_link_is_good_for_its_purpose_alone(purpose: LinkPurpose) -> None:
    assert SIGNER.read(TOKEN, purpose, NOW) is None


def test_a_link_ends() -> None:
    assert SIGNER.read(TOKEN, LinkPurpose.RELEASE, ENDS_AT - 0.001) == LINK
    assert SIGNER.read(TOKEN, LinkPurpose.RELEASE, ENDS_AT) is None


def test_a_link_of_another_key_is_refused() -> None:
    assert LinkSigner(b"K" * 32).read(TOKEN, LinkPurpose.RELEASE, NOW) is None


def test_no_user_makes_the_link_of_another_one_from_his_own() -> None:
    """The payload of another user with the signature of one's own link."""
    other = SIGNER.sign(SignedLink(LinkPurpose.RELEASE, "bob@example.org", ENDS_AT, ID))
    payload, own = (base64.urlsafe_b64decode(token + "==") for token in (other, TOKEN))
    forged = base64.urlsafe_b64encode(payload[:-16] + own[-16:]).rstrip(b"=").decode()
    assert SIGNER.read(forged, LinkPurpose.RELEASE, NOW) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "A",
        TOKEN[:-1],
        TOKEN + "A",
        TOKEN + "=",
        f" {TOKEN}",
        "A" * 10**6,
        "\udc80",
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert SIGNER.read(token, LinkPurpose.RELEASE, NOW) is None


async def test_all_daemons_of_a_model_share_one_key(client: Redis) -> None:
    signers = await asyncio.gather(*(LinkKeys(client, ModelKeys("m")).signer() for _ in range(10)))
    assert {signer.sign(LINK) for signer in signers} == {signers[0].sign(LINK)}
    assert signers[0].read(signers[-1].sign(LINK), LinkPurpose.RELEASE, NOW) == LINK


async def test_who_deletes_the_key_takes_back_all_links(client: Redis) -> None:
    keys = LinkKeys(client, ModelKeys("m"))
    token = (await keys.signer()).sign(LINK)
    await client.delete(ModelKeys("m").link_key)
    assert (await keys.signer()).read(token, LinkPurpose.RELEASE, NOW) is None


async def test_what_is_no_key_signs_nothing(client: Redis) -> None:
    await client.set(ModelKeys("m").link_key, b"short")
    with pytest.raises(StoreUnavailable):
        await LinkKeys(client, ModelKeys("m")).signer()


async def test_without_redis_nothing_is_signed(own_redis: RedisServer) -> None:
    async with Redis.from_url(own_redis.url) as client:
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await LinkKeys(client, ModelKeys("m")).signer()
