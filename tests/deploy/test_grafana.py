"""The dashboard's form: what Grafana would read, and what people need to read it."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.deploy.watching import DASHBOARD

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


def test_every_query_is_of_the_chosen_daemons() -> None:
    for panel in DRAWN:
        for target in panel["targets"]:
            selected = re.findall(r"\w+\{([^}]*)\}", target["expr"])
            assert selected, target
            assert all(selector.startswith('job=~"$job", instance=~"$instance"') for selector in selected), target
