"""The texts that every page has."""

from __future__ import annotations

TEXTS = {
    "product": "nbstream",
    "navigation": "Views",
    "skip": "Go to the content",
    "logout": "Log out",
    "read_only": "read only",
    "old": "Redis cannot be reached: what is shown may be old, and nothing can be changed.",
    "store_away": "Redis cannot be reached now.",
    "foreign_origin": "This request does not come from a page of this host, or the browser does not say so.",
    "csrf_refused": "Nothing was changed: this form is not valid any more. Reload the page, and send it again.",
    "role_refused": "Nothing was changed: you have logged in to read only. Log out, and log in for teaching.",
    "read_only_hint": "You have logged in to read only. To change something, log out, and log in for teaching.",
    "too_many_requests": "Too many requests of your session are at work. Please try again in a moment.",
    "too_many_streams": "{count} pages of your session are kept up to date already. Close one for this one.",
    "error_403": "This is not allowed",
    "remedy_403": "Go back, reload the page, and try it again. If that does not help, log out and log in again.",
    "error_404": "There is no such page",
    "remedy_404": "Look whether the address is whole, or go on with one of the views.",
    "error_413": "This is too much at once",
    "remedy_413": "Select less, and try it again.",
    "error_429": "There were too many attempts",
    "remedy_429": "Wait for a minute, and try it again.",
    "error_500": "This failed",
    "remedy_500": "Look into the log of the daemon: it says why.",
    "error_503": "This is not possible now",
    "remedy_503": "Try it again in some seconds.",
    "error_other": "This request cannot be answered",
    "remedy_other": "Go back, reload the page, and try it again.",
    "back": "Go to the view Now",
}
