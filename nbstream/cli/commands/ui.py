"""``nbstream ui``: print a one-time link to the web interface."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.daemon import config
from nbstream.daemon.status import ask_daemon_status, create_page_link, link_note, link_url
from nbstream.errors import ConfigError, NotRunning
from nbstream.system_users import current_user
from nbstream.terminal import print_note

if TYPE_CHECKING:
    from nbstream.terminal import Output


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the link, and on standard error how to use it.

    69: no daemon runs, 75: Redis is away, 78: the listener is off.
    """
    settings = config.load_settings(config.find_config_file(options.config))
    section = settings.listeners.http
    if section is None:
        raise ConfigError("listeners.http is off, and the page with it")
    daemon = ask_daemon_status(settings.state_dir)
    if daemon.pid is None:
        raise NotRunning(f"no daemon runs on state_dir {settings.state_dir}: nobody would serve the page")
    address = daemon.http_address or section.listen  # the port may be the choice of the system
    if isinstance(address, TcpAddress) and address.port == 0:
        raise NotRunning("the daemon does not answer: only its log says which port the system has chosen")
    role = "read" if options.read_only else "teach"
    output.show(link_url(address, await create_page_link(settings, role, current_user())))
    print_note(link_note(address))
