"""The texts that every page has."""

from __future__ import annotations

TEXTS = {
    "product": "nbstream",
    "navigation": "Views",
    "skip": "To the content",
    "logout": "Log out",
    "read_only": "read only",
    "old": "Redis cannot be reached: what is shown may be old, and nothing can be changed.",
    "store_away": "Redis cannot be reached now. Please try again later.",
    "foreign_origin": "This request does not come from a page of this host, or the browser does not say so.",
    "csrf_refused": "This form is no longer valid: nothing was changed. Reload the page, and send it again.",
    "role_refused": "You have logged in to read only. Log in for teaching to change something.",
    "too_many_requests": "Your session has too many requests at work. Please try again in a moment.",
    "back": "Go to the view Now",
}
