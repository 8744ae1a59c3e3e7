"""Mail servers that cannot be installed beside Postfix, with the configuration that their guides show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.plain_root import run_alone, unpacked


@pytest.mark.parametrize(
    ("module", "variable", "server", "ways"),
    [
        ("tests.deploy.exim", "NBSTREAM_EXIM", "usr/sbin/exim4", ()),
        ("tests.deploy.opensmtpd", "NBSTREAM_OPENSMTPD", "usr/sbin/smtpd", ("through",)),
        ("tests.deploy.opensmtpd", "NBSTREAM_OPENSMTPD", "usr/libexec/opensmtpd/filter-rspamd", ("asking",)),
        ("tests.deploy.sendmail", "NBSTREAM_SENDMAIL", "usr/libexec/sendmail/sendmail", ()),
    ],
)
def test_mail_arrives_as_the_guide_says(
    module: str, variable: str, server: str, ways: tuple[str, ...], tmp_path: Path, program: Callable[[str], str]
) -> None:
    packages = unpacked(variable, server)
    for name in ("ip", "openssl", "procmail", "redis-server"):
        program(name)

    run_alone(module, tmp_path, packages, *ways)
