"""TLS of the listeners that take mail: the settings, and the certificate that comes of them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.daemon.config import Settings, load_settings
from nbstream.daemon.listeners import make_tls_contexts
from nbstream.errors import ConfigError
from tests.harness.redis.access import Certificates


@pytest.fixture(scope="module")
def certificates(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(program("openssl"), tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Settings]:
    def load(text: str) -> Settings:
        path = tmp_path / "nbstream.yaml"
        path.write_text(text)
        return load_settings(path)

    return load


@pytest.mark.parametrize("mode", ["may", "require", "implicit"])
@pytest.mark.parametrize("listener", ["smtp", "lmtp"])
def test_a_listener_with_tls_shows_its_certificate_from_version_1_2_on(
    load: Callable[[str], Settings], certificates: Certificates, listener: str, mode: str
) -> None:
    files = f"tls_cert_file: {certificates.certificate}, tls_key_file: {certificates.key}"
    settings = load(f"listeners: {{{listener}: {{{files}, tls: {mode}}}}}")

    contexts = make_tls_contexts(settings)

    assert list(contexts) == [listener]
    assert contexts[listener].minimum_version is ssl.TLSVersion.TLSv1_2


def test_without_tls_there_is_no_context(load: Callable[[str], Settings], certificates: Certificates) -> None:
    files = f"tls_cert_file: {certificates.certificate}, tls_key_file: {certificates.key}"
    assert make_tls_contexts(load(f"listeners: {{smtp: {{{files}, tls: off}}, lmtp: {{}}}}")) == {}


@pytest.mark.parametrize("listener", ["smtp", "lmtp"])
@pytest.mark.parametrize(("tls", "warnings"), [("off", 1), ("may", 0)])
def test_a_certificate_that_nobody_is_offered_is_warned_of(
    load: Callable[[str], Settings], certificates: Certificates, listener: str, tls: str, warnings: int
) -> None:
    files = f"tls_cert_file: {certificates.certificate}, tls_key_file: {certificates.key}"

    said = load(f"listeners: {{{listener}: {{{files}, tls: {tls}}}}}").warnings

    assert len(said) == warnings
    assert all(f"listeners.{listener}.tls is off" in sentence for sentence in said)


@pytest.mark.parametrize(("networks", "warnings"), [("127.0.0.0/8", 0), ("'::/0', 0.0.0.0/0", 2)])
def test_a_network_of_everybody_that_may_teach_is_warned_of(
    load: Callable[[str], Settings], networks: str, warnings: int
) -> None:
    said = load(f"feedback: {{allow_from: [{networks}]}}").warnings

    assert len(said) == warnings
    assert all("strangers may teach" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("tls: may", "listeners.smtp.tls: found 'may', must be off, or listeners.smtp.tls_cert_file must be set"),
        ("tls: yes", "listeners.smtp.tls: found true, must be off, may, require or implicit"),
        ("tls_key_file: KEY", "tls_key_file: found 'KEY', must be left out where listeners.smtp.tls_cert_file is"),
        ("tls_cert_file: CERT", "must be the key of the certificate in listeners.smtp.tls_cert_file"),
        ("tls_cert_file: CERT, tls_key_file: CERT", "must be the key of the certificate in listeners.smtp"),
        ("tls_cert_file: /nowhere, tls_key_file: KEY", "must be the key of the certificate in listeners.smtp"),
    ],
)
def test_what_cannot_work_is_refused(
    load: Callable[[str], Settings], certificates: Certificates, section: str, problem: str
) -> None:
    def with_files(text: str) -> str:
        return text.replace("CERT", str(certificates.certificate)).replace("KEY", str(certificates.key))

    with pytest.raises(ConfigError) as refused:
        load(f"listeners: {{smtp: {{{with_files(section)}}}}}")

    assert with_files(problem) in str(refused.value)
