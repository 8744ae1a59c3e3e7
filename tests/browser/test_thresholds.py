"""Thresholds in a browser: dragged, moved by keys, entered or chosen, they do what ``nbstream tune`` says."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from nbstream import config
from nbstream.assembly.store import make_model, open_running_redis
from nbstream.bayes.calibration import sigmoid
from nbstream.policy.first_scores import FirstScore
from nbstream.store.model.ledger import LedgerEntry
from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site, open_site, run_aside
from tests.browser.visitor import NARROW, Look, Visitor
from tests.integration.daemon import command, wait_until
from tests.integration.page_client import PageClient
from tests.store.notes import NOTE

COUNT = 400
PATH = "/ui/thresholds"


async def learn_scores(config_file: Path) -> None:
    """Learn messages that had all kinds of P(spam) before their labels."""
    settings = config.load_settings(config_file)
    draw = random.Random(1)
    async with open_running_redis(settings) as clients:
        model = await make_model(settings, clients.client).open()
        for number in range(COUNT):
            label = draw.choice(["ham", "spam"])
            p = sigmoid(draw.gauss(4 if label == "spam" else -4, 3))
            key, at = f"m{number}", 1e9 + 1000 * number
            first = FirstScore(at, key, p, ((0.02, p > 0.9),)).pack()
            entry = LedgerEntry(key, label, 1000, (b"a",), at, "test", "nobody", 0.0, (), first)
            await model.commit_lesson(key, None, entry, NOTE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    """A daemon that has learned these messages."""
    changes = {
        "model": {"min_learned": {"ham": 0, "spam": 0}},
        "verdict": {"unsure": 0.3, "max_false_positive_rate": 0.02},
    }
    with open_site(tmp_path_factory.mktemp("thresholds"), changes) as opened:
        run_aside(learn_scores(opened.config))
        page = PageClient(opened.daemon)
        wait_until(lambda: page.get(PATH).count(f"the last {COUNT} messages labelled"))
        yield opened


def open_view(visit: OpenVisitor, site: Site, look: Look | None = None) -> Visitor:
    visitor = visit(site.origin, look)
    site.log_in(visitor)
    visitor.go(PATH)
    return visitor


def tune_with(site: Site, line: str) -> dict[str, Any]:
    """What ``nbstream tune`` says of a line for the configuration."""
    other = site.config.with_name("other.yaml")
    other.write_text(line + "\n")
    done = command("tune", "--json", "-c", site.config, "--with", other)
    assert done.returncode == 0, done.stderr
    choice: dict[str, Any] = json.loads(done.stdout)["with"]
    return choice


def shown_figures(page: Page) -> tuple[int, int, int, int]:
    """The counts of what is tried: ham lost, spam missed, ham and spam unsure."""
    texts = [
        page.locator(f"#tried-{name}").inner_text()
        for name in ("ham_lost", "spam_missed", "ham_unsure", "spam_unsure")
    ]
    return tuple(int(re.split("[ ,]", text)[0]) for text in texts)  # type: ignore[return-value]  # four


def assert_shows_what_tune_says(page: Page, site: Site) -> dict[str, Any]:
    choice = tune_with(site, page.locator("#line").inner_text())
    assert shown_figures(page) == tuple(
        choice[name] for name in ("ham_called_spam", "spam_missed", "ham_unsure", "spam_unsure")
    )
    return choice


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name)


def test_a_threshold_that_is_dragged_does_what_tune_says(visit: OpenVisitor, site: Site) -> None:
    page = open_view(visit, site).page
    expect(page.locator("#summary")).to_contain_text("These are the thresholds in force.")
    before = page.locator("#line").inner_text()
    mark = page.locator(".det .chosen")
    place = mark.get_attribute("transform")
    box = page.locator(".handle.spam .knob").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(x - 12 * step, y)
    page.mouse.up()

    dragged = page.locator("[name=spam]").input_value()
    expect(page.locator("#line")).to_contain_text(f"spam: {dragged},")
    assert page.locator("#line").inner_text() != before
    expect(page.locator("#summary")).to_contain_text("would have moved")
    expect(page.locator("[name=spam_budget]")).to_have_value("")
    choice = assert_shows_what_tune_says(page, site)
    assert (
        page.locator("[name=spam]").input_value() == dragged == slider(page, "spam").get_attribute("aria-valuenow")
    )
    assert choice["spam_from"] == float(dragged)
    assert mark.get_attribute("transform") != place
    page.wait_for_url(f"**&spam={dragged}&**")  # the address can be kept
    page.reload()
    assert shown_figures(page)[0] == choice["ham_called_spam"]


def test_thresholds_are_moved_by_keys_and_keep_their_order(visit: OpenVisitor, site: Site) -> None:
    page = open_view(visit, site).page
    spam, unsure, reject = (slider(page, name) for name in ("spam", "unsure", "reject"))

    spam.focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#line")).to_contain_text(f"spam: {spam.get_attribute('aria-valuenow')},")
    unsure.focus()
    page.keyboard.press("End")  # no further than spam
    assert unsure.get_attribute("aria-valuenow") == spam.get_attribute("aria-valuenow")
    reject.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")  # no further than spam
    assert reject.get_attribute("aria-valuenow") == spam.get_attribute("aria-valuenow")
    page.keyboard.press("PageUp")

    now = [handle.get_attribute("aria-valuenow") for handle in (unsure, spam, reject)]
    expect(page.locator("#line")).to_have_text(f"verdict: {{unsure: {now[0]}, spam: {now[1]}, reject: {now[2]}}}")
    expect(spam).to_have_attribute("aria-valuetext", re.compile("^spam from 0"))
    assert_shows_what_tune_says(page, site)
    page.keyboard.press("End")
    expect(reject).to_have_attribute("aria-valuetext", "never rejected")
    expect(page.locator("#line")).to_contain_text("reject: null")


def test_a_budget_that_is_chosen_moves_the_threshold(visit: OpenVisitor, site: Site) -> None:
    page = open_view(visit, site).page

    page.locator("[name=spam_budget]").select_option("0.05")

    expect(page.locator("#line")).to_contain_text("max_false_positive_rate: 0.05")
    expect(page.locator("#summary")).to_contain_text("Promised 5 %.")
    choice = assert_shows_what_tune_says(page, site)
    expect(page.locator("[name=spam]")).to_have_value(str(choice["spam_from"]))
    assert slider(page, "spam").get_attribute("aria-valuenow") == str(choice["spam_from"])

    page.locator("[name=spam_budget]").select_option("0.0001")
    expect(page.locator("#summary")).to_contain_text("more ham to promise 0.01 %.")
    expect(slider(page, "spam")).to_have_attribute("aria-valuetext", "never called spam")


def test_what_cannot_be_used_is_said_and_what_was_shown_stays_no_longer(visit: OpenVisitor, site: Site) -> None:
    page = open_view(visit, site).page

    page.locator("[name=spam]").fill("0.1")

    expect(page.locator("#problem-spam")).to_have_text("Enter at least the threshold for unsure.")
    expect(page.locator("[name=spam]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#tried-ham_lost")).to_have_text("not known")
    page.locator("[name=spam]").fill("0.96")
    expect(page.locator("#problem-spam")).to_have_text("")
    expect(page.locator("#line")).to_contain_text("spam: 0.96")
    expect(page.locator("[name=spam]")).not_to_have_attribute("aria-invalid", "true")
    assert_shows_what_tune_says(page, site)


def test_the_line_for_the_configuration_is_copied(visit: OpenVisitor, site: Site) -> None:
    visitor = open_view(visit, site)
    visitor.allow_clipboard()
    page = visitor.page

    page.get_by_role("button", name="Copy").click()

    expect(page.locator("#line-copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#line").text_content()


def test_without_scripts_the_form_says_the_same(visit: OpenVisitor, site: Site) -> None:
    page = open_view(visit, site, Look(scripts=False)).page

    page.locator("[name=spam_budget]").select_option("")
    page.locator("[name=spam]").fill("0.91")
    page.locator("[name=unsure]").fill("0.2")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**spam=0.91**")

    expect(page.locator("#line")).to_have_text("verdict: {unsure: 0.2, spam: 0.91, reject: null}")
    assert_shows_what_tune_says(page, site)
    assert page.get_by_role("slider").count() == 0
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)


@pytest.mark.parametrize("look", [Look(), Look(NARROW, "dark")], ids=str)
def test_the_view_is_readable_by_all(visit: OpenVisitor, site: Site, look: Look) -> None:
    visitor = open_view(visit, site, look)
    visitor.page.locator("summary").first.click()

    assert visitor.grave_violations() == []
    assert visitor.overflowing() == []
