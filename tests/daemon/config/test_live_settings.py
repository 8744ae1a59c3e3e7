"""What a running daemon takes from its file anew: the live sections as a whole, the rest is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationInfo, field_validator

from nbstream.daemon.config import (
    LIVE_SECTIONS,
    POLICY_SECTIONS,
    Settings,
    changed_keys,
    keys_awaiting_restart,
    load_settings,
    merge_live_settings,
    policy_hash,
)
from nbstream.errors import ConfigError


def settings(folder: Path, text: str) -> Settings:
    file = folder / "nbstream.yaml"
    file.write_text(text)
    return load_settings(file)


def test_the_live_sections_are_settings() -> None:
    assert set(POLICY_SECTIONS) < set(LIVE_SECTIONS) < set(Settings.model_fields)


def test_live_sections_are_taken_and_the_rest_stays(tmp_path: Path) -> None:
    running = settings(tmp_path, "model: {name: old}\nverdict: {spam: 0.9}\nlog: {level: debug}")
    new_settings = settings(tmp_path, "model: {name: new}\nverdict: {unsure: 0.2}\nfeedback: {allow_from: []}")

    result = merge_live_settings(running, new_settings)

    assert (result.verdict, result.feedback, result.log) == (
        new_settings.verdict,
        new_settings.feedback,
        new_settings.log,
    )
    assert result.model.name == "old"
    assert result.source == tmp_path / "nbstream.yaml"


def test_changed_and_waiting_settings_are_dotted_keys(tmp_path: Path) -> None:
    running = settings(tmp_path, "listeners: {http: null}")
    new_settings = settings(
        tmp_path,
        "verdict: {spam: 0.9}\nlisteners: {smtp: {trusted_proxies: []}, metrics: {listen: '127.0.0.1:1'}}\n"
        "model: {max_tokens: 20000}\ndrain_seconds: 30",
    )

    in_force = merge_live_settings(running, new_settings)

    assert changed_keys(running, in_force) == ("verdict.spam",)
    assert keys_awaiting_restart(in_force, new_settings) == (
        "listeners.smtp.trusted_proxies",
        "listeners.http",
        "listeners.metrics",
        "model.max_tokens",
    )


def test_another_secret_in_the_same_file_waits_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("Xyzzy-1")
    text = f"listeners: {{http: {{password_file: {secret}}}}}"
    running = settings(tmp_path, text)
    secret.write_text("Xyzzy-2")

    assert keys_awaiting_restart(running, settings(tmp_path, text)) == ("listeners.http.password_file",)


class _Picky(Settings):
    @field_validator("feedback")
    @classmethod
    def _fits_the_model(cls, value: object, info: ValidationInfo) -> object:
        if info.data["model"].name == "old":
            raise ValueError("must not be given for the model old")
        return value


def test_live_settings_that_do_not_fit_the_running_rest_are_refused(tmp_path: Path) -> None:
    running = _Picky.model_construct(**dict(settings(tmp_path, "model: {name: old}")))
    new_settings = settings(tmp_path, "model: {name: new}")

    with pytest.raises(
        ConfigError, match=r"feedback: must not be given for the model old, with the settings that"
    ):
        merge_live_settings(running, new_settings)


@pytest.mark.parametrize(
    "text",
    [
        "verdict: {spam: 0.99}",
        "log: {level: debug}",
        "model: {name: other}",
        "verdict: {unsure: 0.5, spam: 9.9e-1}",
    ],
)
def test_files_with_the_same_policy_have_the_same_hash(tmp_path: Path, text: str) -> None:
    assert policy_hash(settings(tmp_path, text)) == policy_hash(Settings())


@pytest.mark.parametrize(
    "text", ["verdict: {spam: 0.9}", "feedback: {allow_from: [10.0.0.0/8]}", "on_filter_failure: defer"]
)
def test_files_with_another_policy_have_another_hash(tmp_path: Path, text: str) -> None:
    assert policy_hash(settings(tmp_path, text)) != policy_hash(Settings())
