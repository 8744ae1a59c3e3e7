"""The URL of a Redis server: what it may contain, and what of it may be shown.

Rules: as in ``values``, a refusal is a ValueError that says what is allowed and repeats neither the value nor a
secret. Only options that are known here are taken, and each has a check of its own: any other one would reach the
client library unchecked.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlsplit

from pydantic import SecretStr

EMBEDDED = "embedded"

_URL_STARTS = ("redis://", "rediss://", "unix://")
_DATABASE = re.compile(r"(?:/[0-9]{0,9})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ALLOWED_URL = "must be embedded, redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH; DB is a number"
_BOOLEANS = ("true", "false", "yes", "no", "1", "0")
_CERTIFICATE_CHECKS = ("none", "optional", "required")
_OPTIONS = ("db", "username", "password", "protocol")
_TLS_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_TLS_OPTIONS = (*_TLS_FILES, "ssl_cert_reqs", "ssl_check_hostname")


def read_redis_url(value: object) -> SecretStr:
    """Read ``embedded``, ``redis://HOST:PORT/DB``, ``rediss://HOST:PORT/DB`` or ``unix:///PATH``.

    The result is a secret, because it may contain a password.
    """
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or _CONTROL.search(text) or not (text == EMBEDDED or _is_redis_url(text)):
        raise ValueError(_ALLOWED_URL)
    if text != EMBEDDED:
        _check_options(urlsplit(text))
    return SecretStr(text)


def _is_redis_url(text: str) -> bool:
    # urlsplit and .port put the text, with its password, into their errors. These must not get out.
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    # An @ behind the host means that the password has a bare / or ?: host and port are then parts of the password.
    if not text.startswith(_URL_STARTS) or parts.fragment or "@" in parts.path + parts.query:
        return False
    if parts.scheme == "unix":
        return not _host(parts) and len(parts.path) > 1
    return bool(parts.hostname) and port != 0 and _DATABASE.fullmatch(parts.path) is not None


def _check_options(parts: SplitResult) -> None:
    options = parse_qsl(parts.query, keep_blank_values=True)
    names = [name for name, _ in options]
    allowed = _OPTIONS + (_TLS_OPTIONS if parts.scheme == "rediss" else ())
    if not set(names) <= set(allowed) or len(set(names)) < len(names):
        listed = ", ".join(allowed)
        raise ValueError(f"must have no options after the ? but {listed}, each once")
    for name, value in options:
        _check_option(name, value)


def _check_option(name: str, value: str) -> None:
    if name == "db" and re.fullmatch("[0-9]{1,9}", value) is None:
        raise ValueError("must have a whole number as its option db")
    if name == "protocol" and value not in {"2", "3"}:
        raise ValueError("must have 2 or 3 as its option protocol")
    if name == "ssl_cert_reqs" and value not in _CERTIFICATE_CHECKS:
        raise ValueError("must have required, optional or none as its option ssl_cert_reqs")
    if name == "ssl_check_hostname" and value.lower() not in _BOOLEANS:
        raise ValueError("must have true or false as its option ssl_check_hostname")
    if name in _TLS_FILES and not Path(value).exists():
        raise ValueError(f"must have a file that exists as its option {name}")


def url_has_user(url: SecretStr) -> bool:
    """True when the URL itself names a user, before the host or among its options."""
    parts = urlsplit(url.get_secret_value())
    return bool(parts.username) or "username" in parse_qs(parts.query, keep_blank_values=True)


def url_has_password(url: SecretStr) -> bool:
    """True when the URL itself carries a password, before the host or among its options."""
    parts = urlsplit(url.get_secret_value())
    return parts.password is not None or "password" in parse_qs(parts.query, keep_blank_values=True)


def url_has_tls_file(url: SecretStr) -> bool:
    """True when the URL itself names a file for TLS."""
    return bool(set(_TLS_FILES) & set(parse_qs(urlsplit(url.get_secret_value()).query)))


def url_is_unchecked(url: SecretStr) -> bool:
    """True when the URL says that the certificate of the server, or its name, is not to be checked."""
    options = parse_qs(urlsplit(url.get_secret_value()).query)
    check_hostname = options.get("ssl_check_hostname", ["true"])[0].lower() in {"true", "yes", "1"}
    return options.get("ssl_cert_reqs", ["required"])[0] != "required" or not check_hostname


def redact_url(url: SecretStr) -> str:
    """Return the URL as a log may show it: without user, password and options."""
    text = url.get_secret_value()
    if text == EMBEDDED:
        return text
    parts = urlsplit(text)
    return f"{parts.scheme}://{_host(parts)}{parts.path}"


def _host(parts: SplitResult) -> str:
    """Host and port as written, without what precedes the @."""
    return parts.netloc.rpartition("@")[2]
