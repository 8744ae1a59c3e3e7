"""The filters by sender and recipient that lists have."""

from __future__ import annotations

from nbstream.store.recent.message_rows import normalize_address


def read_address(filters: dict[str, str], name: str, problems: list[str]) -> str:
    """Return the address of the filter of this name, or ``@`` and a domain; a domain alone is taken as that.

    ``filters`` then has it as it was understood. What no address can match is left out, and ``problems`` say so.
    """
    written = filters[name]
    local, _, domain = written.rpartition("@")
    if "*" in domain or local == "*":
        problems.append(
            f"{written} is not looked for: only a whole address is, such as ann@x.org, or a whole domain, "
            "such as @x.org."
        )
        written = ""
    elif "." in written and "@" not in written:
        written = f"@{written}"
    filters[name] = written
    return normalize_address(written) if written else ""
