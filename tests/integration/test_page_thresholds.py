"""What the page of a running daemon says of thresholds is what ``nbstream tune`` says of the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, wait_until
from tests.integration.page_client import PageClient
from tests.integration.test_replay import replaying, result, write_config
from tests.letters import letters, write_corpus

COUNT = 120
OUTCOME = "/ui/thresholds/outcome"


def tune(daemon: DaemonProcess, *options: str | Path) -> dict[str, Any]:
    done = command("tune", "--json", "-c", daemon.config, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def without_name(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in choice.items() if name != "name"}


def test_every_choice_of_tune_has_the_same_figures_on_the_page(tmp_path: Path, own_redis: RedisServer) -> None:
    index = write_corpus(tmp_path / "corpus", COUNT)
    config = write_config(
        tmp_path,
        redis=f"{{url: '{own_redis.url}'}}",
        verdict="{max_false_positive_rate: 0.04, until_promised: 0.9, reject: 0.999}",
        recipients="[{match: '*@strict.example', verdict: {spam: 0.99}}]",
        model="{min_learned: {spam: 0, ham: 0}}",
    )
    with DaemonProcess(config) as daemon:
        assert result(replaying(config, index))["learned"] == COUNT
        page = PageClient(daemon)

        def tried(**query: str) -> dict[str, Any]:
            answer = page.get_json(OUTCOME, **query)
            assert answer["problems"] == {}
            return without_name(answer["tried"])

        tuning = tune(daemon)
        assert tuning["messages"] == COUNT
        assert tuning["present"]["spam_missed"] > 0
        assert tried() == without_name(tuning["present"])
        promised = [choice for choice in tuning["budgets"] if choice["spam_from"] is not None]
        assert promised
        for choice in promised:  # until then what is in force stays on the page
            rate = choice["setting"].removeprefix("max_false_positive_rate: ")
            assert tried(spam_budget=rate, reject="") == without_name(choice)
        for choice in tuning["fixed"]:
            fields = {"unsure": str(choice["unsure_from"]), "spam": str(choice["spam_from"]), "reject": ""}
            assert tried(**fields) == without_name(choice)

        # The line that the page gives to copy is the file that tune compares with, to the last digit.
        query = {"unsure": "0.3", "spam": "0.6217", "reject": "", "reject_budget": "0.05"}
        answer = page.get_json(OUTCOME, **query)
        other = tmp_path / "other.yaml"
        other.write_text(answer["texts"]["line"] + "\n")
        assert without_name(answer["tried"]) == without_name(tune(daemon, "--with", other)["with"])

        # What is learned meanwhile counts at once, and so does a policy that is reloaded.
        ((label, raw),) = letters(1, seed=99)
        new = tmp_path / "new.eml"
        new.write_bytes(raw)
        done = command("learn", label, "-c", config, new)
        assert done.returncode == 0, done.stderr
        config.write_text(config.read_text().replace("until_promised: 0.9,", "until_promised: 0.8,"))
        assert command("reload", "-c", config).returncode == 0
        tuning = tune(daemon)
        assert tuning["messages"] == COUNT + 1
        expected = without_name(tuning["present"])
        wait_until(lambda: tried() == expected)
        assert "recipients that match *@strict.example" in page.get("/ui/thresholds")
