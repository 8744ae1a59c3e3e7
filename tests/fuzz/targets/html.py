"""HTML: the visible text is bounded, and plain text comes back from its own encoding as HTML."""

from __future__ import annotations

import html as standard_html

from nbstream.tokens.html import hiding_styles, resolve_character_references, visible_text
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    source = data.decode("utf-8", "replace").lower()
    hiding_styles(source)
    text = visible_text(source)
    assert len(text) <= len(source)
    assert len(resolve_character_references(source)) <= len(source)
    written = standard_html.escape(source, quote=True)
    assert visible_text(written) == source
    assert visible_text(f"<p>{written}</p>").strip() == source.strip()
    assert visible_text(f"<script>{written}</script><!--{written}--><style>{written}").strip() == ""


TARGET = FuzzTarget(
    _check,
    (
        b"<html><body><p>V<b></b>ia &amp; more</p><script>x</script><style>y</style><!-- z --></body>",
        b"<a href='x'>link</a><div><div><!doctype html><title>t</title>",
        b"&#65;&#x41;&nbsp;&ngt;&#" + b"9" * 60 + b";&#xd800;&lt;b&gt;",
        b"<!-- unclosed <b> </script <script src=x>",
        b"text without tags, 1 < 2 & 3 > 2",
    ),
    words=(
        b"<script>",
        b"</script",
        b"<!--",
        b"-->",
        b"<style",
        b"</title>",
        b"<b>",
        b"</",
        b"&#x",
        b"&notin;",
        b"&",
    ),
    mutations=1500,
)
