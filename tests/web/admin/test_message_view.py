"""The view of one message, on a real listener: what it shows, and the lessons that it gives."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import sigmoid
from nbstream.mail.message import Message
from nbstream.policy.check import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds, shorten_probability
from nbstream.server.http.access import Role
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.web.admin.drawings import draw_explanation
from nbstream.web.rendering import format_probability
from tests.harness.admin_site import Site, buttons, open_site, words
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.web.admin.page_listener import Browser, Response

SPAM = next(raw for label, raw in samples(60, seed=9) if label == "spam")
PATH = "/ui/messages/"


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(client, tmp_path) as running:
        yield running


async def act(browser: Browser, message_id: str, action: str, **form: str) -> str:
    """Press a button, and return what the page then says of it above all else."""
    answer = await browser.post(PATH + message_id, {"action": action, **form})
    assert (answer.status, answer.headers.get("Location")) == (303, PATH + message_id), answer.text
    return flash(await browser.get(PATH + message_id))


def flash(page: Response) -> str:
    assert page.status == 200, page.text
    found = re.search(r'<p class="notice"[^>]* role="status">(.*?)</p>', page.text)
    return found[1].replace("&gt;", ">").replace("&#34;", '"') if found else ""


def hidden(page: str, name: str) -> str:
    found = re.search(f'<input type="hidden" name="{name}" value="([^"]*)">', page)
    assert found
    return found[1]


async def test_a_checked_message_is_shown_with_its_verdict_and_why(site: Site) -> None:
    await site.teach()
    message_id = await site.check(SPAM)
    record = (await site.http.ask(f"/v1/messages/{message_id}")).json

    async with site.browser() as browser:
        page = await browser.get(PATH + message_id)

    shown = words(page.text)
    assert page.status == 200
    assert record["then"]["reason"] in shown
    assert page.text.count('class="drawing"') == 1
    assert "Now it would be" not in shown
    strongest = record["now"]["clues"][0]
    assert f"{strongest['token']} {strongest['from']}" in shown
    assert f"{strongest['log_ratio']:+.2f} {strongest['ham']:.2f} {strongest['spam']:.2f}" in shown
    assert "text and links" in shown
    assert buttons(page.text) == ["This is ham", "This is spam"]


async def test_a_lesson_says_what_it_changed_and_changes_the_next_verdict(site: Site) -> None:
    await site.teach()
    message_id = await site.check(SPAM)

    former = (await site.http.ask("/v1/check", SPAM)).json

    async with site.browser() as browser:
        told = await act(browser, message_id, "ham")
        page = await browser.get(PATH + message_id)

    check = (await site.http.ask("/v1/check", SPAM)).json
    before, after = (format_probability(each["probability"]) for each in (former, check))
    assert told.startswith(
        f"The message was learned as ham. P(spam) was {before} and is {after} now; the verdict is still unsure."
    )
    shown = words(page.text)
    assert page.text.count('class="drawing"') == 1
    assert "Now it would be unsure P(spam)" in shown
    assert "learned ham page ann" in shown
    assert shorten_probability(check["probability"], 3) in shown
    assert "as ham" in shown
    assert buttons(page.text)[:2] == ["This is spam", "Take the lesson back"]
    assert site.http.metric("nbstream_feedback_total", source="page", label="ham", outcome="learned") == 1
    record = (await site.http.ask(f"/v1/messages/{message_id}")).json
    assert (record["learned"]["source"], record["learned"]["actor"]) == ("page", "page ann")


async def test_who_reinforces_does_so_on_purpose_and_once(site: Site) -> None:
    await teach_dispute(site.http.spam_filter)
    message_id = await site.check(DISPUTED.raw)

    async with site.browser() as browser:
        told = await act(browser, message_id, "ham")
        page = await browser.get(PATH + message_id)
        version = hidden(page.text, "version")
        first = await act(browser, message_id, "reinforce-ham", version=version)
        again = await act(browser, message_id, "reinforce-ham", version=version)
        wrong = await act(browser, message_id, "reinforce-spam", version=version)

    assert told.startswith("Nothing was learned: the message is learned as ham already.")
    assert "still contradicts the label ham" in told
    assert "Reinforce ham" in buttons(page.text)
    assert first.startswith("You reinforced ham")
    assert again == wrong == "Nothing was changed: somebody has taught this message meanwhile. Look at it again."


async def test_a_label_that_is_no_class_any_more_cannot_be_reinforced(site: Site, client: Redis) -> None:
    await teach_dispute(site.http.spam_filter)
    message_id = await site.check(DISPUTED.raw)

    async with site.browser() as browser:
        await act(browser, message_id, "ham")
        for key in [key async for key in client.scan_iter("*:ledger:*")]:
            await client.hset(key, "label", "newsletter")
        page = await browser.get(PATH + message_id)

    assert "contradicts the label newsletter" in words(page.text)
    assert "This is spam" in buttons(page.text)
    assert "Reinforce newsletter" not in buttons(page.text)


async def test_what_is_selected_in_the_list_is_taught_with_a_result_for_each(site: Site) -> None:
    await site.teach()
    ids = [await site.check(raw) for raw in (SPAM, b"Subject: another\n\nhello\n")]
    path = "/ui/messages"

    async with site.browser() as browser, site.browser(Role.READ) as reader:
        listed = await browser.get(f"{path}?select=all")
        answer = await browser.post(path, {"action": "ham", "id": [*ids, "a" * 24]})
        taught = await browser.get(path)
        back = await browser.post(path, {"action": "unlearn", "id": ids[0]})
        refused = [
            (await browser.post(path, {"action": "reinforce-ham", "id": ids[0]})).status,
            (await browser.post(path, {"action": "ham"})).status,
            (await reader.post(path, {"action": "ham", "id": ids[0]})).status,
        ]
        only_read = await reader.get(path)

    assert listed.text.count(" checked>") == len(ids)
    results = [words(each) for each in re.findall(r"</td><td>(.*?)</td>", answer.text)]
    assert [each.partition(".")[0] for each in results[:2]] == ["The message was learned as ham"] * 2
    assert results[2].startswith("Nothing was changed")
    assert re.findall(r'data-label="Learned">.*?>(\w+)</bdi>', taught.text) == ["ham", "ham"]
    assert "The lesson was taken back" in words(back.text)
    assert refused == [400, 400, 403]
    assert (buttons(only_read.text), "checkbox" in only_read.text) == (["Search"], False)


async def test_a_message_that_cannot_be_learned_hides_no_result_of_the_others(site: Site, client: Redis) -> None:
    await site.teach()
    ids = [await site.check(raw) for raw in (SPAM, b"Subject: two\n\nhello\n", b"Subject: three\n\nhello\n")]
    (key,) = await client.keys(f"*:checked:{ids[1]}")
    await client.set(key, b"damaged")

    async with site.browser() as browser:
        answer = await browser.post("/ui/messages", {"action": "ham", "id": ids})

    first, second, third = [words(each) for each in re.findall(r"</td><td>(.*?)</td>", answer.text)]
    assert first.startswith("The message was learned as ham")
    assert second.startswith("Temporary failure")
    assert third.startswith("The message was learned as ham")


async def test_without_redis_nothing_is_shown_as_if_it_were_known(own_redis: RedisServer, tmp_path: Path) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    try:
        async with open_site(client, tmp_path) as site, site.browser() as browser:
            message_id = await site.check(SPAM)
            assert (await browser.get(PATH + message_id)).status == 200
            own_redis.stop()

            page = await browser.get(PATH + message_id)
            lesson = await browser.post(PATH + message_id, {"action": "ham"})

            assert (page.status, lesson.status) == (503, 503)
            assert "Redis cannot be reached" in words(page.text)
            assert str(own_redis.socket) not in page.text + lesson.text
    finally:
        await client.aclose()


# ``nbstream.web.admin.message_view``.


def explanation(
    *ratios: float,
    prior: float = 0.5,
    temperature: float = 1.0,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 - frozen
) -> Explanation:
    clues = [CountedClue(b"token:%d" % number, ratio, 0, 1) for number, ratio in enumerate(ratios)]
    score = math.fsum([prior, *ratios])
    return Explanation(
        at=1.0,
        verdict="ham",
        reason="because",
        probability=sigmoid(score / temperature),
        score=score,
        prior=prior,
        thresholds=thresholds,
        state=ModelState({}),
        clues=clues,
    )


def test_thresholds_that_can_be_reached_are_drawn() -> None:
    svg = draw_explanation(explanation(-20, thresholds=Thresholds(0.5, 0.95, math.inf)))

    drawn = re.findall(r'<text class="threshold"[^>]*>(.*?)</text>', svg)
    assert drawn == ["unsure 0.5", "spam 0.95"]
    lines = [float(x) for x in re.findall(r'<line class="threshold" x1="([\d.]+)%"', svg)]
    assert 0 < min(lines) < max(lines) < 100


async def test_kinds_are_shown_and_taught(client: Redis, tmp_path: Path) -> None:
    async with (
        open_site(client, tmp_path, classes=("ham", "newsletter", "spam")) as site,
        site.browser() as browser,
    ):
        for number, (label, raw) in enumerate(samples(120)):
            name = label if label == "spam" else ("ham", "newsletter")[number % 2]
            await site.http.spam_filter.learn(Message.parse(raw), name, "test")
        ham = await site.check(next(raw for label, raw in samples(60, seed=9) if label == "ham"))

        before = await browser.get(PATH + ham)
        said = await act(browser, ham, "newsletter")
        after = await browser.get(PATH + ham)
        again = await act(browser, ham, "spam")

        assert buttons(before.text) == ["This is ham", "This is newsletter", "This is spam"]
        assert re.search(r"Kind (ham|newsletter) 0\.\d+, (ham|newsletter) 0\.\d+", words(before.text))
        assert "The message was learned as newsletter." in said
        assert buttons(after.text) == ["This is ham", "This is spam", "Take the lesson back"]
        assert "Learned as newsletter" in words(after.text)
        assert "it was newsletter before" in again
        listed = await browser.get("/ui/messages")
        assert "These are newsletter" in buttons(listed.text)
