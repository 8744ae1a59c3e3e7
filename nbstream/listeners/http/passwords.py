"""The passwords of the listener: which role each of them gives, at the APIs as at the page."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from nbstream.listeners.http.page.requests import Role


@dataclass(frozen=True, slots=True)
class Passwords:
    """The passwords of the listener, None where there is none.

    ``teach`` gives both roles; without it, ``read`` does.
    """

    read: str | None = field(default=None, repr=False)
    teach: str | None = field(default=None, repr=False)

    @property
    def any(self) -> bool:
        """Whether there is a password."""
        return self.read is not None or self.teach is not None

    def role_of(self, offered: str) -> Role | None:
        """Return the role that a password gives; all passwords are compared, even after a match."""
        is_read = self.read is not None and is_equal(offered, self.read)
        is_teach = self.teach is not None and is_equal(offered, self.teach)
        if is_teach or (is_read and self.teach is None):
            return Role.TEACH
        return Role.READ if is_read else None

    def of_role(self, role: Role) -> str | None:
        """Return the password that gives this role and no other one; None where there is none."""
        if role is Role.TEACH:
            return self.read if self.teach is None else self.teach
        return None if self.teach is None else self.read


def is_equal(offered: str, secret: str) -> bool:
    """Return whether the texts are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), secret.encode())
