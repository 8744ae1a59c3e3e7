"""The engine: what the environment asks for, and what the library allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.engine import choice
from nbstream.engine.choice import ENVIRONMENT, LIBRARY_FILE, choose_engine
from nbstream.errors import ConfigError
from tests.harness.native import native_library

MISSING = Path("/nonexistent/libnbstream_native.so")


@pytest.fixture(scope="module")
def built() -> Path:
    native_library()
    return LIBRARY_FILE


def test_a_library_that_fits_is_used(built: Path) -> None:
    engine = choose_engine(file=built, environment={})
    assert engine.native_library is not None
    assert str(engine) == "native (its library fits)"


def test_python_goes_on_without_a_library_and_says_why() -> None:
    engine = choose_engine(file=MISSING, environment={ENVIRONMENT: ""})
    assert str(engine) == "python (the native library was not built)"


def test_a_library_of_other_tokens_is_refused(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interface, tokenizer, package = choice._INTERFACE_FILES
    other = tmp_path / "tokens.py"
    other.write_text(tokenizer.read_text().replace("MODEL_FORMAT = ", "MODEL_FORMAT = 1"))
    monkeypatch.setattr(choice, "_INTERFACE_FILES", (interface, other, package))
    assert choose_engine(file=built, environment={}).name == "python"
    with pytest.raises(ConfigError, match="built for another version"):
        choose_engine(file=built, environment={ENVIRONMENT: "native"})


def test_the_environment_can_ask_for_either() -> None:
    engine = choose_engine(file=MISSING, environment={ENVIRONMENT: "python"})
    assert str(engine) == "python (NBSTREAM_ENGINE=python)"
    with pytest.raises(ConfigError, match=r"NBSTREAM_ENGINE=native is impossible: .*not built; install "):
        choose_engine(file=MISSING, environment={ENVIRONMENT: "native"})


def test_an_environment_that_names_no_engine_is_an_error() -> None:
    with pytest.raises(ConfigError, match="NBSTREAM_ENGINE=rust: must be python or native"):
        choose_engine(environment={ENVIRONMENT: "rust"})
