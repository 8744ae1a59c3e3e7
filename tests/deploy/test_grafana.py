"""The dashboard's form: what Grafana would read, and what people need to read it."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from tests.deploy.watching import DASHBOARD, queries

PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]


def test_it_can_be_imported_anywhere() -> None:
    assert (DASHBOARD["uid"], DASHBOARD["id"]) == ("nbstream", None)
    assert DASHBOARD["schemaVersion"] >= 36
    source, *others = DASHBOARD["templating"]["list"]
    assert (source["type"], source["name"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert {variable["name"] for variable in others} == {"job", "instance"}
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps([DASHBOARD["panels"], others]))
    assert set(sources) == {"${datasource}"}


def test_panels_have_their_own_ids_and_positions() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        position = panel["gridPos"]
        assert position["w"] > 0
        assert position["h"] > 0
        assert 0 <= position["x"] <= 24 - position["w"]
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@pytest.mark.parametrize("panel", DRAWN, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_in_what_unit(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20
    assert panel["description"].endswith(".")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    assert defaults["thresholds"]["steps"][0]["value"] is None
    assert panel["datasource"]["uid"] == "${datasource}"
    assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])
    for target in panel["targets"]:
        assert target["legendFormat"] or target["format"] == "table"


def test_every_query_is_of_the_chosen_daemons() -> None:
    for panel in DRAWN:
        for target in panel["targets"]:
            selected = re.findall(r"\w+\{([^}]*)\}", target["expr"])
            assert selected, target
            assert all(selector.startswith('job=~"$job", instance=~"$instance"') for selector in selected), target


def test_variables_are_those_that_there_are() -> None:
    assert len(queries()) > 50  # raises KeyError for another one
