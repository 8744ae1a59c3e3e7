"""Two examples of each command, with which its ``--help``, the reference and the manual page end."""

from __future__ import annotations

EXAMPLES = {
    "serve": ("nbstream serve --hints", "nbstream serve -c /etc/nbstream/nbstream.yaml"),
    "reload": ("nbstream reload", "nbstream reload --json"),
    "ui": ("nbstream ui", "nbstream ui --read-only -c /etc/nbstream/nbstream.yaml"),
    "doctor": ("nbstream doctor", "nbstream doctor --quiet --canary ann@example.org"),
    "config": ("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
    "config check": ("nbstream config check", "nbstream config check /etc/nbstream/nbstream.yaml"),
    "check": ("nbstream check message.eml", "nbstream check --json ~/Maildir/new"),
    "explain": (
        "nbstream explain edchtru3oofnfvfqwqz7j2fq",
        "nbstream explain --all --json message.eml",
    ),
    "learn": (
        "nbstream learn spam ~/Maildir/.Junk",
        "nbstream learn ham --imap imaps://ann@mail.example.org/Archive",
    ),
    "unlearn": ("nbstream unlearn message.eml", "nbstream unlearn --id edchtru3oofnfvfqwqz7j2fq"),
    "quarantine": ("nbstream quarantine list", "nbstream quarantine release edch"),
    "quarantine list": ("nbstream quarantine list", "nbstream quarantine list --json"),
    "quarantine show": (
        "nbstream quarantine show edchtru3oofnfvfqwqz7j2fq",
        "nbstream quarantine show edch",
    ),
    "quarantine release": (
        "nbstream quarantine release edchtru3oofnfvfqwqz7j2fq",
        "nbstream quarantine release --again edch",
    ),
    "status": ("nbstream status", "nbstream status --json"),
    "top-tokens": ("nbstream top-tokens", "nbstream top-tokens --class ham -k 50"),
    "history": (
        "nbstream history --since 2h",
        "nbstream history --since 2026-01-31T12:00+01:00 --actor 192.0.2.7 --json",
    ),
    "undo": (
        "nbstream undo --since 2h --actor 192.0.2.7",
        "nbstream undo --id edchtru3oofnfvfqwqz7j2fq --yes",
    ),
    "forget-auto": ("nbstream forget-auto", "nbstream forget-auto --yes"),
    "export": (
        "nbstream export model.gz",
        "nbstream export - | ssh mx2.example.org nbstream import -",
    ),
    "import": ("nbstream import model.gz", "nbstream import --merge model.gz"),
    "migrate": ("nbstream migrate", "nbstream migrate --back"),
    "evaluate": (
        "nbstream evaluate index.tsv --json-file result.json --scores scores.tsv",
        "nbstream evaluate --spam ~/Maildir/.Junk --ham ~/Maildir --regime errors --json",
    ),
    "tune": ("nbstream tune", "nbstream tune --with other.yaml --plot tune.svg"),
    "bench": ("nbstream bench", "nbstream bench --mail ~/Maildir --json"),
    "replay": ("nbstream replay index.tsv", "nbstream replay index.tsv --limit 3000 --skip 1000 --json"),
}
"""By the name of the command, without the program's."""
