"""The pictures of the page in the handbook, of made-up mail: ``make screenshots``.

Each view is shown wide in light, and the first one in dark and narrow too; a few more pages are shown once. The
pictures have few colours, so that they are small: the most frequent ones as they are, and besides those that are
furthest from each other, or small signs would get the colour of others.
"""

from __future__ import annotations

import shutil
import smtplib
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from nbstream.demo.mail import RECIPIENT, DemoMail, all_mail, labelled_mail
from nbstream.web.users.digest_mail import DigestRenderer
from nbstream.web.users.links import LinkSigner
from nbstream.web.users.settings import DigestSettings
from tests.browser.site import Site, open_site
from tests.browser.user_site import log_user_in
from tests.browser.visitor import NARROW, Look, Visitor, launch_chromium
from tests.harness.daemon import DEADLINE_SECONDS, free_port, wait_until
from tests.harness.digest_site import SECTION
from tests.web.users.test_digest_mail import DIGEST, NOW

FOLDER = Path(__file__).parents[2] / "docs" / "page"

VIEWS = {
    "now": "/ui/",
    "messages": "/ui/messages",
    "thresholds": "/ui/thresholds",
    "teaching": "/ui/teaching",
    "undo": "/ui/undo?since=1d&actor=127.0.0.2",
    "quarantine": "/ui/quarantine",
}
LOOKS = {"light": Look(1100), "dark": Look(1100, "dark"), "narrow": Look(NARROW)}

_COLORS = 96
_FREQUENT_COLORS = 16


def fill(site: Site) -> None:
    """Teach a model, send the mail of ``nbstream demo`` through it, and let somebody teach it wrongly."""
    deliver(site, ((f"{mail.label}@nbstream.invalid", mail) for mail in islice(labelled_mail(1), 300)))
    deliver(site, ((RECIPIENT, mail) for mail in islice(all_mail(3), 60)))
    wrong = {"ham": "spam", "spam": "ham"}
    mistaken = (mail for mail in islice(labelled_mail(2), 25) if mail.label)
    deliver(site, ((f"{wrong[mail.label or '']}@nbstream.invalid", mail) for mail in mistaken), "127.0.0.2")
    wait_until(lambda: len(site.message_ids()) >= 60)


def deliver(site: Site, mail: Iterable[tuple[str, DemoMail]], peer: str = "127.0.0.1") -> None:
    """Send messages from their senders, each to a recipient."""
    host, _, port = site.daemon.address("smtp").partition(":")
    with smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS, source_address=(peer, 0)) as client:
        for recipient, message in mail:
            client.sendmail(message.address, [recipient], message.raw)


def take(visitor: Visitor, path: str, picture: Path) -> None:
    """Write the picture of a view, as much of it as the window shows."""
    visitor.go(path)
    take_page(visitor, picture)


def take_page(visitor: Visitor, picture: Path) -> None:
    """Write the picture of the page that the visitor sees."""
    visitor.page.locator("main").wait_for()
    visitor.page.screenshot(path=picture)
    with Image.open(picture) as image:
        reduce_colors(image.convert("RGB")).save(picture, optimize=True)


def reduce_colors(image: Image.Image) -> Image.Image:
    """Return the picture with few colours."""
    pixels = np.asarray(image).reshape(-1, 3).astype(np.int64)
    colors, places, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    frequent = colors[np.argsort(-counts)[:_FREQUENT_COLORS]]
    distant = image.quantize(_COLORS - len(frequent), Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = np.concatenate([frequent, np.reshape(distant, (-1, 3))])
    nearest = ((colors[:, np.newaxis] - palette) ** 2).sum(axis=2).argmin(axis=1)
    reduced = Image.fromarray(nearest[places].reshape(image.height, image.width).astype(np.uint8))
    reduced.putpalette(palette.ravel().tolist())
    return reduced


def take_digest(browser: Browser) -> None:
    """Write the picture of a digest."""
    texts = DigestRenderer(DigestSettings(**SECTION), 30).render(DIGEST, LinkSigner(b"k" * 32), NOW)
    page = browser.new_page(viewport={"width": 700, "height": 100})
    page.set_content(texts.html)
    page.screenshot(path=FOLDER / "digest.png", full_page=True)
    with Image.open(FOLDER / "digest.png") as image:
        reduce_colors(image.convert("RGB")).save(FOLDER / "digest.png", optimize=True)
    page.close()


def take_single_pages(browser: Browser, site: Site) -> None:
    """Write the pictures of the login, a quarantined message, the question before a deletion, and an error."""
    visitor = Visitor(browser, site.origin, Look(1100))
    visitor.page.set_viewport_size({"width": 1100, "height": 400})
    take(visitor, "/ui/login", FOLDER / "login.png")
    site.log_in(visitor)
    visitor.go("/ui/quarantine")
    visitor.page.locator("td > a").first.click()
    visitor.page.set_viewport_size({"width": 1100, "height": 1200})
    take_page(visitor, FOLDER / "quarantined.png")
    visitor.page.set_viewport_size({"width": 1100, "height": 300})
    visitor.go("/ui/quarantine")
    for number in range(3):
        visitor.page.get_by_role("checkbox").nth(number).check()
    visitor.page.get_by_role("button", name="Delete").click()
    take_page(visitor, FOLDER / "delete.png")
    assert not visitor.problems, visitor.problems
    visitor.close()


def take_user_page(browser: Browser, site: Site) -> None:
    """Write the pictures of the self-service page: mail, one message, and both on a telephone in German."""
    visitor = Visitor(browser, site.origin, Look(1000))
    log_user_in(site, visitor, RECIPIENT)
    visitor.page.set_viewport_size({"width": 1000, "height": 620})
    take(visitor, "/my/", FOLDER / "user-quarantine.png")
    visitor.page.get_by_role("article").nth(1).get_by_role("link").click()
    visitor.page.set_viewport_size({"width": 1000, "height": 420})
    take_page(visitor, FOLDER / "user-message.png")
    path = urlsplit(visitor.page.url).path
    phone = Visitor(browser, site.origin, Look(NARROW, "dark", language="de"))
    log_user_in(site, phone, RECIPIENT)
    phone.page.set_viewport_size({"width": NARROW, "height": 640})
    take(phone, path, FOLDER / "user-narrow.png")
    for each in (visitor, phone):
        assert not each.problems, each.problems
        each.close()


def teach_one(browser: Browser, site: Site) -> str:
    """Teach a newsletter as spam, and return the path of its page: now differs from then."""
    visitor = Visitor(browser, site.origin, Look(1100))
    site.log_in(visitor)
    visitor.go("/ui/messages?sender=news@gadgets.example")
    visitor.page.locator("td > a").first.click()
    visitor.page.get_by_role("button", name="This is spam").click()
    visitor.page.get_by_role("button", name="Take the lesson back").wait_for()
    path = urlsplit(visitor.page.url).path
    visitor.close()
    return path


def main() -> None:
    """Make all pictures anew."""
    chromium = shutil.which("chromium")
    assert chromium, "this needs Debian's package chromium"
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch_chromium(playwright, chromium)
        take_digest(browser)
        password = Path(folder) / "password"
        password.write_text("a good password\n")
        password.chmod(0o600)
        http = {"listen": f"127.0.0.1:{free_port()}", "password_file": str(password)}
        listeners = {"smtp": {"listen": "127.0.0.1:0"}, "http": http}
        users = {"users": [RECIPIENT], "login": "dovecot:/run/dovecot/auth-client"}
        changes = {"actions": {"spam": "quarantine"}, "listeners": listeners, "user_page": users}
        with open_site(Path(folder), changes) as site:
            fill(site)
            take_user_page(browser, site)
            take_single_pages(browser, site)
            message = teach_one(browser, site)
            for look_name, look in LOOKS.items():
                visitor = Visitor(browser, site.origin, look)
                site.log_in(visitor)
                for name, path in {**VIEWS, "message": message}.items():
                    if look_name == "light" or name == "now":
                        take(visitor, path, FOLDER / f"{name}-{look_name}.png")
                assert not visitor.problems, visitor.problems
                visitor.close()
        browser.close()
    print(f"{FOLDER}: {sum(file.stat().st_size for file in FOLDER.glob('*.png')) // 1000} kB")


if __name__ == "__main__":
    main()
