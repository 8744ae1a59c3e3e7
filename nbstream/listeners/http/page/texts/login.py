"""The texts of the login."""

from __future__ import annotations

TEXTS = {
    "title": "Log in",
    "with_link": "This link logs you in. It can be used once.",
    "submit": "Log in",
    "password": "Password",
    "name": "Your name, for the history (may be empty)",
    "no_password": "A one-time link is needed. On the machine of the daemon, this command prints one:",
    "or_link": "Or use a one-time link. On the machine of the daemon, this command prints one:",
    "command": "nbstream ui",
    "needed": "You have not logged in, or your session has ended. Nothing was changed.",
    "link_refused": "This link was used before, or it is older than ten minutes.",
    "password_refused": "This is not the password.",
    "too_many": "There were too many attempts. Please wait for a minute.",
    "store_away": "Redis cannot be reached: nobody can log in now.",
    "go_on": "Go on, if you have logged in before",
    "done_title": "Logged in",
    "done": "You have logged in.",
    "done_go_on": "Go on",
}
