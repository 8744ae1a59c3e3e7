"""The faults of daemons and their processes, of the next hop, and of the disk of the Maildir."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Sequence

from tests.soak.chaos.disks import full
from tests.soak.chaos.faults import Actions
from tests.soak.chaos.next_hop import Mood
from tests.soak.chaos.schedule import Event, Kind
from tests.soak.chaos.services import send_signal, stop_for
from tests.soak.chaos.site import Host, Site

_MOODS = {
    Kind.HOP_REFUSES: Mood.REFUSES,
    Kind.HOP_HANGS: Mood.HANGS,
    Kind.HOP_DEFERS: Mood.DEFERS,
    Kind.HOP_DIES_AFTER_DATA: Mood.DIES_AFTER_DATA,
}


class HostFaults:
    """The faults of the hosts."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @property
    def actions(self) -> Actions:
        return {
            Kind.KILL_DAEMON: self._kill_daemon,
            Kind.TERMINATE_DAEMON: self._terminate_daemon,
            Kind.STOP_DAEMON: self._stop_daemon,
            Kind.KILL_SUPERVISOR: self._kill_supervisor,
            Kind.KILL_WORKER: self._signal_worker,
            Kind.TERMINATE_WORKER: self._signal_worker,
            Kind.STOP_WORKER: self._stop_worker,
            Kind.ROLLING_RESTART: self._rolling_restart,
            Kind.RELOAD: self._reload,
            Kind.REFUSED_RELOAD: self._refused_reload,
        }

    def _host(self, event: Event) -> Host:
        return self._site.hosts[event.target]

    async def _kill_daemon(self, event: Event) -> None:
        host = self._host(event)
        for pid in host.daemon.pids():
            send_signal(pid, signal.SIGKILL)
        await self._restarted(host)

    async def _terminate_daemon(self, event: Event) -> None:
        await self._terminate(self._host(event))

    async def _terminate(self, host: Host) -> None:
        await host.daemon.end()
        host.daemon.go_on()
        await host.wait_until_ready()

    async def _stop_daemon(self, event: Event) -> None:
        await stop_for(self._host(event).daemon.pids(), event.seconds)

    async def _kill_supervisor(self, event: Event) -> None:
        host = self._host(event)
        pids = host.daemon.pids()
        for pid in pids[:1]:
            send_signal(pid, signal.SIGKILL)
        await host.daemon.wait_until_gone(pids)
        await self._restarted(host)

    async def _signal_worker(self, event: Event) -> None:
        host = self._host(event)
        number = signal.SIGKILL if event.kind is Kind.KILL_WORKER else signal.SIGTERM
        for pid in _one_of(host.daemon.workers(), event):
            send_signal(pid, number)
            await host.daemon.wait_until_gone([pid])
        await host.wait_until_ready()

    async def _stop_worker(self, event: Event) -> None:
        await stop_for(_one_of(self._host(event).daemon.workers(), event), event.seconds)

    async def _rolling_restart(self, _: Event) -> None:
        for host in self._site.hosts.values():
            await self._terminate(host)

    async def _reload(self, event: Event) -> None:
        generator, host = random.Random(event.draw), self._host(event)
        host.write_config(
            unsure=round(generator.uniform(0.2, 0.6), 3), spam=round(generator.uniform(0.7, 0.98), 3)
        )
        self._hang_up(host)

    async def _refused_reload(self, event: Event) -> None:
        host = self._host(event)
        text = host.config.read_text()
        host.daemon.has_broken_file = True
        host.config.write_text(text + "nonsense: 1\n")
        self._hang_up(host)
        await asyncio.sleep(1.0)  # so long the broken file is there
        host.config.write_text(text)
        self._hang_up(host)
        await self._restarted(host)
        host.daemon.has_broken_file = False

    def _hang_up(self, host: Host) -> None:
        if host.daemon.pid:
            send_signal(host.daemon.pid, signal.SIGHUP)

    async def _restarted(self, host: Host) -> None:
        await asyncio.sleep(0)  # the service manager notes that it has ended
        await host.wait_until_ready()


class HopFaults:
    """The faults of the next hop of host a, and of the disk of the Maildir of host b."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @property
    def actions(self) -> Actions:
        return {
            Kind.HOP_CUTS: self._cut_hop,
            Kind.FULL_MAIL_DISK: self._fill_mail_disk,
            **dict.fromkeys(_MOODS, self._spoil_hop),
        }

    async def _spoil_hop(self, event: Event) -> None:
        hop = self._site.next_hop
        await hop.behave(_MOODS[event.kind])
        await asyncio.sleep(event.seconds)
        await hop.behave(Mood.WELL)

    async def _cut_hop(self, _: Event) -> None:
        self._site.next_hop.cut()

    async def _fill_mail_disk(self, event: Event) -> None:
        async with full(self._site.mail_disk):
            await asyncio.sleep(event.seconds)


def _one_of(pids: Sequence[int], event: Event) -> Sequence[int]:
    return [pids[event.draw % len(pids)]] if pids else []
