"""``tests.redis_servers.network``."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

from tests.integration.daemon import DEADLINE_SECONDS, free_port
from tests.redis_servers.access import HOSTS
from tests.redis_servers.network import Network


def test_at_the_end_every_connection_is_closed_however_new_it_is() -> None:
    with ExitStack() as stack:
        with Network() as network:
            port = network.forward(HOSTS[0], free_port(HOSTS[0]))
            clients = [
                stack.enter_context(socket.create_connection((HOSTS[0], port), DEADLINE_SECONDS))
                for _ in range(50)
            ]
        for client in clients:
            with suppress(ConnectionError):
                assert client.recv(1) == b""
