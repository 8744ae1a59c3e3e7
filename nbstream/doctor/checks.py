"""The table of all checks, in the order in which their findings are shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nbstream.daemon.status import DaemonStatus, ask_daemon_status
from nbstream.doctor import canary
from nbstream.doctor.connections import examine_listeners, examine_login_server, examine_next_hop
from nbstream.doctor.daemon import examine_configuration, examine_daemon
from nbstream.doctor.examination import Site, SiteCheck, in_thread, run_checks
from nbstream.doctor.machine import examine_machine
from nbstream.doctor.model import examine_lists, examine_model
from nbstream.doctor.permissions import examine_permissions
from nbstream.doctor.redis_server import examine_redis
from nbstream.errors import NbstreamError
from nbstream.findings import without_repetitions

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.findings import Finding

CHECKS = (
    SiteCheck("config", examine_configuration),
    SiteCheck("permissions", examine_permissions),
    SiteCheck("daemon", examine_daemon),
    SiteCheck("listeners", examine_listeners),
    SiteCheck("next_hop", examine_next_hop),
    SiteCheck("redis", examine_redis),
    SiteCheck("model", examine_model),
    SiteCheck("lists", examine_lists),
    SiteCheck("user_page", examine_login_server),
    SiteCheck("machine", examine_machine),
)


async def examine(settings: Settings, canary_address: str | None = None) -> tuple[Finding, ...]:
    """Examine the site of these settings, and send a canary where it has an address."""
    daemon, unknown = DaemonStatus(None), ""
    try:
        daemon = await in_thread(lambda: ask_daemon_status(settings.state_dir))
    except NbstreamError as error:
        unknown = str(error).rstrip(".")
    checks = list(CHECKS)
    if canary_address is not None:
        send = partial(canary.send_canary, address=canary_address)
        checks.append(SiteCheck("canary", send, canary.SECONDS + canary.QUEUE_SECONDS + 5))
    return without_repetitions(await run_checks(Site(settings, daemon, unknown), checks))
