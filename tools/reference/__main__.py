"""``python -m tools.reference``: write the files that are made from the code, and name those that have changed."""

from __future__ import annotations

from tools.reference.pages import ROOT, outdated


def main() -> None:
    """Write what is outdated."""
    for file, text in outdated():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        print(f"written: {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
