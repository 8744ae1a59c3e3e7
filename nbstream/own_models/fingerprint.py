"""The fingerprint of a message: what the copies of one mailing to several users have in common.

Rules: pure, and by tokens alone, whether these are words or keyed hashes. All hashes have a secret key: without it
nobody can make another message that has the bands of a given one. See ``own_models.agreement``.

Copies differ in recipient, Message-ID and links. The smallest hashes of the tokens of the body are the same in two
messages as often as their tokens are (Broder, "On the resemblance and containment of documents", 1997). Of pairs
of one subject in trec07p-20k and SpamAssassin that share at least 80 % of their tokens, 97.9 and 98.5 % share a
band of four bands of four; of pairs of one sender with less than 50 % 1.6 and 2.2 %; of other pairs 0.02 %. Bands
of three find 99.3 % of the copies, but 7 % of the others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from nbstream.tokens.tokenizer import Tokens

_BANDS = 4
_BAND_SIZE = 4
_MIN_BODY_TOKENS = 10  # of fewer the smallest hashes say little
_DIGEST_BYTES = 4 * _BANDS * _BAND_SIZE  # that of one BLAKE2b has all hashes of a token


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """``bands``: two messages with one of them are copies of each other. The first band is that of the key alone.

    ``hashes`` has one of 32 bits for each token, in their order.
    """

    bands: tuple[str, ...]
    hashes: NDArray[np.uint32]

    @classmethod
    def of(cls, message_key: str, tokens: Tokens, secret: bytes) -> Fingerprint:
        """Return the fingerprint of a message under the ``secret``."""
        all_hashes = _hash_tokens(tokens.all, secret)
        bands = [keyed_name(message_key, secret)]
        head, body = tokens.sizes[:2]
        if body >= _MIN_BODY_TOKENS:
            smallest = all_hashes[head : head + body].min(axis=0).reshape(_BANDS, _BAND_SIZE)
            bands += [f"{i}{band.tobytes().hex()}" for i, band in enumerate(smallest)]
        return cls(tuple(bands), all_hashes[:, 0])


def keyed_name(text: str, secret: bytes) -> str:
    """Return what stands for a key or an address in the name of a key in Redis."""
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), key=secret, digest_size=12).hexdigest()


def shared_tokens(
    tokens: Sequence[bytes], copies: Collection[bytes], least: int, secret: bytes
) -> Sequence[bytes]:
    """Return those of ``tokens`` that at least this many ``copies`` have, of which these are the packed hashes."""
    if len(copies) < least:
        return ()
    hashes, counts = np.unique(np.concatenate([unpack(copy) for copy in copies]), return_counts=True)
    is_shared = np.isin(_hash_tokens(tokens, secret)[:, 0], hashes[counts >= least])
    return [token for token, shared in zip(tokens, is_shared, strict=True) if shared]


def pack(hashes: NDArray[np.uint32]) -> bytes:
    """Return the stored form of the hashes of a message: each once."""
    return np.unique(hashes).astype("<u4").tobytes()


def unpack(packed: bytes) -> NDArray[np.uint32]:
    """Return the hashes of the stored form; those of nothing where it is none."""
    return np.frombuffer(packed[: len(packed) // 4 * 4], "<u4").astype(np.uint32)


def _hash_tokens(tokens: Sequence[bytes], secret: bytes) -> NDArray[np.uint32]:
    digests = [hashlib.blake2b(token, key=secret, digest_size=_DIGEST_BYTES).digest() for token in tokens]
    return np.frombuffer(b"".join(digests), "<u4").astype(np.uint32).reshape(len(digests), -1)
