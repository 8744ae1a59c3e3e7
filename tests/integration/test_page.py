"""The page of a daemon with two workers: one link, one session, and one end of it for both."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, wait_until
from tests.harness.page_client import link_token, login_link
from tests.integration.workers import MANY, Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Site:
    """With a password of the page; the daemon starts the server itself."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "password").write_text("secret")
    site = Site(folder)
    http = f"http: {{listen: '127.0.0.1:0', password_file: {folder / 'password'}}}"
    site.write(listeners=f"smtp: {{listen: '127.0.0.1:0'}}, {http}")
    return site


@pytest.fixture(scope="module")
def daemon(site: Site) -> Iterator[DaemonProcess]:
    with site.running() as daemon:
        yield daemon


def ask(
    daemon: DaemonProcess,
    method: str,
    path: str,
    form: dict[str, str] | None = None,
    cookie: str = "",
    fields: Mapping[str, str] = MappingProxyType({}),
) -> tuple[HTTPResponse, str]:
    """Ask as a browser does, on a connection of its own."""
    address = daemon.address("http")
    host, _, port = address.rpartition(":")
    headers = {"Cookie": cookie, "Accept": "text/html", "Sec-Fetch-Site": "same-origin", **fields}
    body = None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urllib.parse.urlencode(form)
    connection = HTTPConnection(host, int(port), timeout=DEADLINE_SECONDS)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response, response.read().decode()
    finally:
        connection.close()


def test_a_link_of_the_command_is_for_both_workers(site: Site, daemon: DaemonProcess) -> None:
    link = link_token(login_link(daemon))

    answer, _ = ask(daemon, "POST", "/ui/login", {"link": link})
    assert answer.status == 200
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    pages = [ask(daemon, "GET", "/ui/", cookie=cookie) for _ in range(MANY)]

    assert {page.status for page, _ in pages} == {200}
    tokens = {re.findall(r'name="csrf" value="(\w+)"', html)[0] for _, html in pages}
    wait_until(lambda: all(site.counted(number, "nbstream_connections_total") for number in (1, 2)))
    assert {ask(daemon, "POST", "/ui/login", {"link": link})[0].status for _ in range(MANY)} == {403}
    (token,) = tokens
    assert ask(daemon, "POST", "/ui/logout", {"csrf": token}, cookie)[0].status == 303
    assert {ask(daemon, "GET", "/ui/", cookie=cookie)[0].status for _ in range(MANY)} == {303}


def test_the_workers_count_wrong_passwords_together(daemon: DaemonProcess) -> None:
    stranger = {"X-Forwarded-For": "198.51.100.1"}
    guesses = [ask(daemon, "GET", "/stat", fields={"Password": "a guess", **stranger}) for _ in range(MANY)]
    assert [answer.status for answer, _ in guesses] == [401] * 10 + [429] * (MANY - 10)
    right = {ask(daemon, "GET", "/stat", fields={"Password": "secret", **stranger})[0].status for _ in range(MANY)}
    login = ask(daemon, "POST", "/ui/login", {"password": "secret"}, fields=stranger)[0].status
    assert (right, login) == ({429}, 429)
    assert {ask(daemon, "GET", "/stat")[0].status for _ in range(MANY)} == {200}
    assert ask(daemon, "POST", "/ui/login", {"password": "secret"})[0].status == 200
