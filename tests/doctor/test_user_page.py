"""The page of users: whether anybody can log in with a password."""

from __future__ import annotations

from pathlib import Path

from nbstream.doctor import user_page
from nbstream.doctor.user_page import examine_user_page
from tests.doctor.sites import make_site, the
from tests.user_page.site import PasswordTable


async def test_a_server_that_answers_is_told_and_gets_no_password(tmp_path: Path) -> None:
    async with PasswordTable(tmp_path / "auth", {}).running() as table:
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: 'dovecot:{table.path}'}}\n")
        assert the(await examine_user_page(site), user_page.READY)
    assert table.asked == []


async def test_a_server_that_is_away_is_a_problem(tmp_path: Path) -> None:
    for login in ("dovecot:/nonexistent/auth-client", "imaps://127.0.0.1:1", "imap://127.0.0.1:1"):
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: '{login}'}}\n")
        assert "nonexistent" not in the(await examine_user_page(site), user_page.AWAY).what


async def test_nothing_is_said_where_no_user_has_a_password(tmp_path: Path) -> None:
    for text in ("", "user_page: {users: ['*@example.org']}\n"):
        assert await examine_user_page(make_site(tmp_path, text)) == []
