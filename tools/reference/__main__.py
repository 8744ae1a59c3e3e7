"""``python -m tools.reference``: write the files that are made from the code, and print those that changed."""

from __future__ import annotations

from tools.reference.pages import ROOT, outdated


def main() -> None:
    """Write each outdated file and print its path."""
    for file, text in outdated():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(f"written: {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
