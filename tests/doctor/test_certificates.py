"""Certificates: the real ones of openssl, and bytes that are none."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.doctor import certificates
from nbstream.doctor.certificates import listener_certificate, next_hop_certificate, valid_until
from tests.doctor.sites import is_of
from tests.redis_servers.access import Certificates


@pytest.fixture
def certificate(program: Callable[[str], str], tmp_path: Path) -> bytes:
    """A certificate that is valid for two days from now."""
    return ssl.PEM_cert_to_DER_cert(Certificates.make(program("openssl"), tmp_path).certificate.read_text())


def test_the_date_is_that_of_openssl(program: Callable[[str], str], certificate: bytes) -> None:
    words = [program("openssl"), "x509", "-inform", "DER", "-noout", "-enddate"]
    shown = subprocess.run(words, input=certificate, check=True, capture_output=True, timeout=30).stdout.decode()

    end = datetime.strptime(shown.strip(), "notAfter=%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)

    assert valid_until(certificate) == end


@pytest.mark.parametrize("days", [1, 20_000])
def test_a_certificate_that_is_valid_for_very_long_has_another_form_of_the_date(
    program: Callable[[str], str], tmp_path: Path, days: int
) -> None:
    words = (
        f"req -x509 -newkey rsa:2048 -nodes -subj /CN=x -days {days} -keyout {tmp_path}/key -out {tmp_path}/pem"
    )
    subprocess.run([program("openssl"), *words.split()], check=True, capture_output=True, timeout=30)

    end = valid_until(ssl.PEM_cert_to_DER_cert((tmp_path / "pem").read_text()))

    assert abs(end - datetime.now(UTC) - timedelta(days=days)) < timedelta(hours=1)


def test_a_certificate_is_fine_expires_soon_or_has_expired(certificate: bytes) -> None:
    end = valid_until(certificate)
    for days_left, of_listener, of_next_hop in (
        (30, certificates.VALID, certificates.HOP_VALID),
        (3, certificates.EXPIRES_SOON, certificates.HOP_EXPIRES_SOON),
        (-1, certificates.EXPIRED, certificates.HOP_EXPIRED),
    ):
        now = end - timedelta(days=days_left)
        assert is_of(listener_certificate("smtp", certificate, now), of_listener)
        assert is_of(next_hop_certificate("encrypt", certificate, now), of_next_hop)
    assert listener_certificate("smtp", certificate, end).check == "certificate.smtp"


@given(st.data())
def test_what_is_no_certificate_is_refused(data: st.DataObject) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of them: nothing else may be raised
        valid_until(data.draw(st.binary(max_size=40)))
