"""A file of aliases that cannot be used is named before the daemon needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.daemon import command


@pytest.mark.parametrize("content", [None, "ann\n", "ann ben carl\n"])
def test_the_check_of_the_configuration_and_the_doctor_read_the_aliases(
    tmp_path: Path, content: str | None
) -> None:
    aliases, settings = tmp_path / "aliases", tmp_path / "nbstream.yaml"
    if content is not None:
        aliases.write_text(content)
    settings.write_text(f"own_models: {{alias_file: {aliases}}}\n")

    result = command("config", "check", settings)
    examined = command("doctor", "-c", settings)

    assert (result.returncode, examined.returncode) == (78, 4)
    assert "own_models.alias_file cannot be used: " in result.stderr
    assert "The configuration cannot be used: own_models.alias_file cannot be used: " in examined.stdout
