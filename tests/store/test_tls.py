"""Connections with TLS share a context, and trust the authorities that are named, not those of the system too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest
from redis.asyncio import SSLConnection

from nbstream.store.connection.options import tls_connection_class
from tests.harness.redis.access import Certificates


@pytest.fixture
def certificates(tmp_path: Path, program: Callable[[str], str]) -> Certificates:
    return certificates_in(tmp_path / "first", program)


def certificates_in(folder: Path, program: Callable[[str], str]) -> Certificates:
    folder.mkdir()
    return Certificates.make(program("openssl"), folder)


def context_of(connection: SSLConnection) -> SSLContext:
    context = connection._connection_arguments()["ssl"]  # what redis-py opens a connection with
    assert isinstance(context, SSLContext)
    return context


def test_a_named_authority_is_the_only_one(
    certificates: Certificates, tmp_path: Path, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_system = certificates_in(tmp_path / "system", program)
    monkeypatch.setenv("SSL_CERT_FILE", str(of_system.authority))
    connection_class = tls_connection_class()

    named = context_of(connection_class(ssl_ca_certs=str(certificates.authority)))

    assert len(named.get_ca_certs()) == 1
    assert len(context_of(tls_connection_class()()).get_ca_certs()) == 1, "that of the system"
    assert named.check_hostname


def test_connections_share_a_context_until_a_file_is_renewed(
    certificates: Certificates, tmp_path: Path, program: Callable[[str], str]
) -> None:
    connection_class = tls_connection_class()
    options: dict[str, Any] = {
        "ssl_ca_certs": str(certificates.authority),
        "ssl_certfile": str(certificates.certificate),
        "ssl_keyfile": str(certificates.key),
    }
    connection = connection_class(**options)
    first = context_of(connection)
    assert context_of(connection_class(**options)) is first

    renewed = certificates_in(tmp_path / "renewed", program)
    for old, new in zip(
        (certificates.authority, certificates.certificate, certificates.key),
        (renewed.authority, renewed.certificate, renewed.key),
        strict=True,
    ):
        new.replace(old)

    assert context_of(connection) is not first
    assert context_of(connection_class(**options)) is context_of(connection)
