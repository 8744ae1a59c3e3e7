"""Pages as HTML: the templates, which have the texts of administrators, and what they may use.

Rules: everything is escaped unless this module or a chart made it. Texts that others wrote pass the filter
``foreign``. A template that uses an unknown name fails.
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nbstream.mail.visible_text import is_blank, visible_text
from nbstream.policy.verdict import format_threshold, shorten_probability
from nbstream.web.areas import ADMIN_AREA, PREFIX
from nbstream.web.requests import NOBODY
from nbstream.web.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.web.areas import Area
    from nbstream.web.requests import Page, PageRequest

_NOTHING = Markup('<span class="none">\N{EN DASH}</span>')
_TITLE_LENGTH = 1000
_LEAST_DISTANCE = 1e-6  # of P(spam) from 0 and from 1, that is shown


class PageRenderer:
    """Renders pages."""

    def __init__(self) -> None:
        self._environment = _environment()

    async def compile_templates(self) -> None:
        """Compile all templates in a thread, one after the other: the event loop must not stand so long."""
        for name in self._environment.list_templates():
            await asyncio.to_thread(self._environment.get_template, name)

    def render(
        self,
        page: Page,
        request: PageRequest | None,
        area: Area = ADMIN_AREA,
        *,
        path: str = "",
        flash: str = "",
        language: str = "en",
    ) -> str:
        """Return the HTML of a page of ``area``; ``request`` is None where nobody has logged in.

        ``path`` is that of the request, ``flash`` is shown above the content.
        """
        session = request.session if request and request.session is not NOBODY else None

        def csrf_field() -> Markup:
            """Return the hidden field that each form needs."""
            return Markup('<input type="hidden" name="csrf" value="{}">').format(
                session.csrf_token if session else ""
            )

        return self._environment.get_template(page.template).render(
            {
                **page.values,
                "area": area,
                "is_admin": area.prefix == PREFIX,
                "session": session,
                "path": path,
                "flash": flash,
                "csrf_field": csrf_field,
                "language": language,
                "texts": TEXTS[language],
            }
        )


@lru_cache(maxsize=1)  # what is compiled is the same for all listeners of a process
def _environment() -> Environment:
    """Return the templates, and what they may use."""
    environment = Environment(
        loader=PackageLoader("nbstream.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        foreign=foreign,
        foreign_lines=foreign_lines,
        local_time=local_time,
        number=number,
        probability=format_probability,
        threshold=format_threshold,
        visible=visible_title,
    )
    return environment


def foreign(value: str | None, length: int = 100) -> Markup:
    """Return a text that others wrote as HTML that cannot change what stands around it.

    It is cut to ``length`` characters; the title of the element then has (more of) the whole. A text of which
    nothing would be seen is a dash, so that no link is invisible.
    """
    if not value or is_blank(value[:length]):
        return _NOTHING
    shown = visible_text(value, length)
    if len(value) <= length:
        return Markup('<bdi class="foreign">{}</bdi>').format(shown)
    return Markup('<bdi class="foreign" title="{}">{}…</bdi>').format(visible_text(value, _TITLE_LENGTH), shown)


def visible_title(value: str, length: int = 100) -> str:
    """Return a text that others wrote for the title of a page, which has no elements."""
    return visible_text(value, length)


def foreign_lines(value: str) -> Markup:
    """Return a text of several lines that others wrote, for an element that keeps its line breaks, as HTML."""
    return Markup('<bdi class="foreign">{}</bdi>').format("\n".join(map(visible_text, value.splitlines())))


def local_time(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> Markup:
    """Return a time, in seconds since the epoch, as an element; it is shown in the time zone of the daemon.

    A number that is no time, which another program may have stored, is a dash.
    """
    try:
        then = time.localtime(at)
    except (ValueError, OverflowError, OSError):
        return _NOTHING
    return Markup('<time datetime="{}">{}</time>').format(
        time.strftime("%Y-%m-%dT%H:%M:%S%z", then), time.strftime(form, then)
    )


def number(value: float, digits: int = 0) -> str:
    """Return a number with its thousands separated."""
    return str(escape(f"{value:,.{digits}f}"))


def format_probability(probability: float) -> str:
    """Return P(spam) with the digits that it needs near 0 and near 1: ``0.500``, ``0.99997``, ``> 0.999999``."""
    distance = min(probability, 1 - probability)
    if distance < _LEAST_DISTANCE:
        return f"< {_LEAST_DISTANCE:f}" if probability < 0.5 else f"> {1 - _LEAST_DISTANCE:f}"
    return shorten_probability(probability, max(3, math.ceil(-math.log10(distance))))
