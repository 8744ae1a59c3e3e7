"""The section ``redis``: one place, known options, and files and logins only where they count."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.daemon.assembly.store import connection_options
from nbstream.daemon.config import Settings, load_settings
from nbstream.errors import ConfigError
from nbstream.store.connection import ClusterNodes, SentinelNodes, TlsOptions


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Settings]:
    (tmp_path / "password").write_text("SECRET\n")
    (tmp_path / "empty.pem").touch()

    def load_text(text: str) -> Settings:
        file = tmp_path / "nb.yaml"
        file.write_text(f"redis: {text}\n".replace("TMP", str(tmp_path)))
        return load_settings(file)

    return load_text


@pytest.fixture
def certificate(program: Callable[[str], str], tmp_path: Path) -> Path:
    """A certificate that is its own authority, with its key in ``key.pem``; ``other.pem`` is another key."""
    for name in ("other", "key"):
        words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout {name}.pem -out certificate.pem"
        subprocess.run([program("openssl"), *words.split()], check=True, capture_output=True, cwd=tmp_path)
    return tmp_path / "certificate.pem"


def test_sentinels_with_logins_and_tls_reach_the_store(
    load: Callable[[str], Settings], certificate: Path, tmp_path: Path
) -> None:
    settings = load(
        "{sentinels: ['s1:26379', '[::1]:26380'], service: mymaster, user: u, password_file: TMP/password, "
        "tls: true, ca_file: TMP/certificate.pem, "
        "cert_file: TMP/certificate.pem, key_file: TMP/key.pem}"
    )

    options = connection_options(settings)

    assert options.server == SentinelNodes((("s1", 26379), ("::1", 26380)), "mymaster")
    assert (options.user, options.password) == ("u", "SECRET")
    assert options.tls == TlsOptions(str(certificate), str(certificate), str(tmp_path / "key.pem"))
    assert not settings.redis.is_embedded
    assert settings.redis.display_url == "sentinels of mymaster at s1:26379,[::1]:26380"
    assert "SECRET" not in repr(options)
    assert connection_options(pickle.loads(pickle.dumps(settings))) == options, "as workers get it"


def test_a_cluster_reaches_the_store(load: Callable[[str], Settings]) -> None:
    settings = load("{cluster: ['n1:7000', 'n2:7000']}")

    assert connection_options(settings).server == ClusterNodes((("n1", 7000), ("n2", 7000)))
    assert connection_options(settings).tls is None
    assert connection_options(settings).model == "default"
    assert settings.redis.display_url == "cluster at n1:7000,n2:7000"


REFUSALS = [
    ("{url: 'redis://h', sentinels: ['s:1'], service: m}", "sentinels", "redis.url already says which Redis"),
    ("{url: 'redis://h', cluster: ['n:1']}", "cluster", "redis.url already says which Redis"),
    ("{sentinels: ['s:1'], service: m, cluster: ['n:1']}", "cluster", "redis.sentinels already say which Redis"),
    ("{sentinels: ['s:1']}", "service", "must be given with redis.sentinels"),
    ("{service: m}", "service", "only redis.sentinels need it"),
    ("{sentinels: ['s:0'], service: m}", "sentinels[0]", "the port from 1 to 65535"),
    ("{cluster: [h]}", "cluster[0]", "must be HOST:PORT or [IPV6]:PORT, the port from 1 to 65535"),
    ("{cluster: ['h:0']}", "cluster[0]", "must be HOST:PORT or [IPV6]:PORT, the port from 1 to 65535"),
    ("{url: 'redis://h/one'}", "url", "DB is a number"),
    ("{cluster: 'n:1'}", "cluster", "must be a list"),
    ("{sentinels: ['s:1'], service: 'a b'}", "service", "must be a name without spaces"),
    ("{wait_replicas: 1}", "wait_replicas", "the embedded Redis has no replicas"),
    ("{url: 'redis://h', wait_replicas: 17}", "wait_replicas", "must be at most 16"),
    ("{user: u}", "user", "the embedded Redis has no users"),
    ("{url: 'redis://u@h', user: u}", "user", "redis.url already names a user"),
    ("{password_file: TMP/password}", "password_file", "the embedded Redis has no password"),
    ("{url: 'rediss://h', tls: true}", "tls", "redis.url says by rediss:// that it is TLS"),
    ("{tls: true}", "tls", "must be left out"),
    ("{url: 'redis://h', cert_file: TMP/x.pem}", "cert_file", "that needs rediss:// in redis.url, or redis.tls"),
    ("{cluster: ['n:1'], key_file: TMP/x.pem}", "key_file", "the connection is no TLS"),
    ("{cluster: ['n:1'], tls: true, key_file: TMP/x.pem}", "key_file", "the key of redis.cert_file, which is not"),
    ("{cluster: ['n:1'], tls: true, cert_file: TMP/x.pem}", "key_file", "must be the key of the certificate"),
    ("{url: 'rediss://h', ca_file: TMP/none.pem}", "ca_file", "readable file with certificates in PEM"),
    ("{url: 'rediss://h', ca_file: TMP/password}", "ca_file", "readable file with certificates in PEM"),
    ("{url: 'redis://h?foo=1'}", "url", "each other option is a key beside redis.url"),
    ("{url: 'rediss://h?SECRET=1'}", "url", "each other option is a key beside redis.url"),
    ("{url: 'redis://h?db=1&db=2'}", "url", "each other option is a key beside redis.url"),
    ("{url: 'redis://h?db=one'}", "url", "each other option is a key beside redis.url"),
]


@pytest.mark.parametrize(("text", "key", "refusal"), REFUSALS)
def test_what_contradicts_or_cannot_be_used_is_refused_in_a_sentence(
    load: Callable[[str], Settings], text: str, key: str, refusal: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(text)

    assert f"redis.{key}: " in str(refused.value)
    assert refusal in str(refused.value)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("url", ["redis://h:1/2", "redis://h?db=3", "unix:///run/r.sock?db=2", "unix://u:p@/r"])
def test_a_url_says_which_database(load: Callable[[str], Settings], url: str) -> None:
    assert load(f"{{url: '{url}'}}").redis.url.get_secret_value() == url
