"""A real Postfix whose configuration is examined, and what people make of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from nbstream.doctor.examination import MailServerFiles, Site
from nbstream.doctor.postfix import FilterSide, MailFlow, compare, examine_postfix, filter_side
from nbstream.doctor.postfix_configuration import Endpoint, parse_postfix, tcp_endpoint
from nbstream.findings import Finding
from tests.deploy.postfix import Postfix
from tests.doctor.sites import make_site

MILTER = Endpoint("loopback", 11332)


class ExaminedPostfix:
    """A Postfix with the pieces of ``deploy/postfix``, and the nbstream that belongs to it."""

    def __init__(self, postfix: Postfix, folder: Path, program: Callable[[str], str]) -> None:
        self._postfix = postfix
        self._folder = folder
        self._program = program
        self.outside = f"127.0.0.1:{postfix.outside}/inet"
        self.users = f"127.0.0.1:{postfix.submission}/inet"
        self.back = f"127.0.0.1:{postfix.reinjection}/inet"

    @property
    def filter_port(self) -> int:
        """The port at which nbstream listens."""
        return self._postfix.filter

    def set(self, *settings: str) -> None:
        """Set parameters of main.cf."""
        self._edit("-e", *settings)

    def set_service(self, service: str, *settings: str) -> None:
        """Set parameters of a service in master.cf."""
        self._edit("-P", *(f"{service}/{setting}" for setting in settings))

    def _edit(self, option: str, *settings: str) -> None:
        folder = str(self._postfix.folder / "etc")
        subprocess.run([self._program("postconf"), "-c", folder, option, *settings], check=True, timeout=30)
        self._postfix.cool()

    def site(self, text: str = "", milters: tuple[Path, ...] = ()) -> Site:
        """The site with the addresses of this Postfix, and these files of its milters."""
        limits = "" if "listeners:" in text else "listeners: {smtp: {listen: '%s'}}\n"
        address = f"127.0.0.1:{self._postfix.filter}"
        next_hop = f"relay: {{next_hop: 'smtp://127.0.0.1:{self._postfix.reinjection}'}}\n"
        files = MailServerFiles(self._postfix.folder / "etc", milters=milters)
        return make_site(self._folder, (limits + next_hop + text).replace("%s", address), mail_servers=files)

    async def findings(self, text: str = "") -> list[Finding]:
        """What the examination by the real program finds."""
        return list(await examine_postfix(self.site(text)))

    def compared(self, **changes: object) -> list[Finding]:
        """What it finds with another nbstream than that of the settings."""
        outputs = [self._postfix.postconf(option) for option in ("-nx", "-M", "-P")]
        ours: FilterSide = filter_side(self.site().settings)
        return list(compare(MailFlow(parse_postfix(*outputs), replace(ours, **changes))))  # type: ignore[arg-type]  # any field

    @property
    def with_milter(self) -> Mapping[str, Endpoint]:
        """Listeners with a milter."""
        return {"smtp": tcp_endpoint("127.0.0.1", self._postfix.filter), "milter": MILTER}
