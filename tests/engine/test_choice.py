"""The engine: what the configuration and the environment ask for, and what the library allows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nbstream.engine import choice
from nbstream.engine.choice import ENVIRONMENT, LIBRARY_FILE, PYTHON, EngineChoice, choose_engine
from nbstream.errors import ConfigError
from tests.engine.native import native_library

MISSING = Path("/nonexistent/libnbstream_native.so")


@pytest.fixture(scope="module")
def built() -> Path:
    native_library()
    return LIBRARY_FILE


@pytest.mark.parametrize("wanted", ["auto", "native"])
def test_a_library_that_fits_is_used(built: Path, wanted: EngineChoice) -> None:
    engine = choose_engine(wanted, file=built, environment={})
    assert engine.native_library is not None
    assert str(engine) == f"native (engine: {wanted})"


def test_python_is_used_where_it_is_asked_for() -> None:
    engine = choose_engine("python", environment={})
    assert (engine.name, engine.native_library, engine.reason) == ("python", None, "engine: python")


def test_auto_goes_on_without_a_library_and_says_why() -> None:
    engine = choose_engine("auto", file=MISSING, environment={})
    assert str(engine) == "python (the native library was not built)"


def test_a_native_engine_that_was_asked_for_and_is_missing_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"engine: native is impossible: .*not built; install .* or choose"):
        choose_engine("native", file=MISSING, environment={})


def test_a_library_of_other_tokens_is_refused(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interface, tokenizer = choice._INTERFACE_FILES
    other = tmp_path / "tokens.py"
    other.write_text(tokenizer.read_text().replace("MODEL_FORMAT = ", "MODEL_FORMAT = 1"))
    monkeypatch.setattr(choice, "_INTERFACE_FILES", (interface, other))
    assert choose_engine("auto", file=built, environment={}).name == "python"
    with pytest.raises(ConfigError, match="built for another version"):
        choose_engine("native", file=built, environment={})


def test_the_environment_is_stronger_than_the_configuration() -> None:
    engine = choose_engine("native", file=MISSING, environment={ENVIRONMENT: "python"})
    assert str(engine) == "python (NBSTREAM_ENGINE=python)"
    engine = choose_engine("python", file=MISSING, environment={ENVIRONMENT: ""})
    assert str(engine) == "python (engine: python)"
    with pytest.raises(ConfigError, match="NBSTREAM_ENGINE=native is impossible"):
        choose_engine("auto", file=MISSING, environment={ENVIRONMENT: "native"})


def test_an_environment_that_names_no_engine_is_an_error() -> None:
    with pytest.raises(ConfigError, match="NBSTREAM_ENGINE=rust: must be auto, python or native"):
        choose_engine("auto", environment={ENVIRONMENT: "rust"})


def test_an_engine_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PYTHON.reason = "another"  # type: ignore[misc]
