"""The table of all checks, in the order in which their findings are shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nbstream.daemon.status import DaemonStatus, ask_daemon_status
from nbstream.doctor.canary import SECONDS as CANARY_SECONDS
from nbstream.doctor.canary import send_canary
from nbstream.doctor.configuration import examine_configuration
from nbstream.doctor.dovecot import examine_dovecot
from nbstream.doctor.examination import Check, in_thread, run_checks
from nbstream.doctor.listeners import examine_listeners
from nbstream.doctor.machine import examine_machine
from nbstream.doctor.model import examine_model
from nbstream.doctor.next_hop import examine_next_hop
from nbstream.doctor.permissions import examine_permissions
from nbstream.doctor.postfix import examine_postfix
from nbstream.doctor.redis_server import examine_redis
from nbstream.doctor.running_daemon import examine_daemon
from nbstream.doctor.site import Site
from nbstream.errors import NbstreamError
from nbstream.findings import without_repetitions

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.doctor.site import MailServerFiles
    from nbstream.findings import Finding

CHECKS = (
    Check("config", examine_configuration),
    Check("permissions", examine_permissions),
    Check("daemon", examine_daemon),
    Check("listeners", examine_listeners),
    Check("next_hop", examine_next_hop),
    Check("redis", examine_redis),
    Check("model", examine_model),
    Check("machine", examine_machine),
    Check("postfix", examine_postfix),
    Check("dovecot", examine_dovecot),
)


async def examine(
    settings: Settings, mail_servers: MailServerFiles, canary_address: str | None = None
) -> tuple[Finding, ...]:
    """Examine the site of these settings, and send a canary where it has an address."""
    daemon, unknown = DaemonStatus(None), ""
    try:
        daemon = await in_thread(lambda: ask_daemon_status(settings.state_dir))
    except NbstreamError as error:
        unknown = str(error).rstrip(".")
    checks = list(CHECKS)
    if canary_address is not None:
        checks.append(Check("canary", partial(send_canary, address=canary_address), CANARY_SECONDS + 5))
    return without_repetitions(await run_checks(Site(settings, daemon, mail_servers, unknown), checks))
