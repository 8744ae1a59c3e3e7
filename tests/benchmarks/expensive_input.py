"""A search for messages that cost much: ``python -m tests.benchmarks.expensive_input --seconds N --seed S``.

Recipes of messages are changed at random, and those that cost most CPU time a byte are changed further. The worst
ten are measured again at their full size, and printed with their cost, as a multiple of that of ordinary text of
the same size. What costs more than ``MAX_RATIO`` becomes one of the recipes in ``tests.expensive_messages``.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace

from tests.expensive_messages import KNOWN, SIZE, Place, Recipe, Slot, Unit, cpu_seconds, ordinary_text
from tests.tokens.generated_mail import charsets

_SEARCH_SIZE = 200_000
_WORST = 10

_CHARSETS = (*charsets(), "no-such-charset")
_TYPES = ("text/plain", "text/html", "multipart/mixed", "message/rfc822", "image/png", "application/x")
_ENCODINGS = ("8bit", "base64", "quoted-printable")
_FIELDS = ("Subject", "From", "To", "Received", "Authentication-Results", "DKIM-Signature", "Content-Type", "X-A")
_ATOMS: tuple[bytes | Slot, ...] = (
    *Slot,
    *(
        b"a",
        b"A",
        b"1",
        b" ",
        b"\r\n",
        b"\r",
        b"\n",
        b"\t",
        b"\0",
        b"\x1b",
        b"=",
        b"+",
        b"~",
        b"%",
        b"_",
        b"-",
        b".",
    ),
    *(
        b"&",
        b"&#",
        b"&#x",
        b";",
        b"&lt",
        b"&amp;",
        b"&#65;",
        b"&ab",
        b"<",
        b">",
        b"<b>",
        b"<a ",
        b"<!--",
        b"-->",
        b"</",
    ),
    *(
        b"<style>",
        b"<script>",
        b"<title>",
        b"href=",
        b"://",
        b"http://",
        b"www.",
        b"/",
        b"?",
        b"@",
        b":",
        b"'",
        b'"',
    ),
    *(
        b"=?u?q?",
        b"=?utf-8?b?",
        b"?=",
        b"=41",
        b"=EF=B7=BA",
        b"QUJD",
        b"a=b;",
        b"a*0*=",
        b"boundary=b",
        b"charset=x;",
    ),
    *(
        b"--b",
        b"\r\n--b",
        b"--",
        b"Content-Type: ",
        b"Content-Disposition: x; filename=",
        b"Received: ",
        b"a: ",
        b"(",
    ),
    *(
        b"\\",
        b")",
        b",",
        b"\xd3",
        b"\xbd",
        b"\xd2",
        b"\xdd",
        b"\xc0",
        b"\xb6",
        b"\xde",
        b"\xe0",
        b"\xff",
        b"\xdc",
        b"\xd8",
    ),
    *(
        text.encode()
        for text in ("\ufdfa", "\xbd", "\u0e33", "\u0390", "\u0301", "\u0130", "\u3316", "\uac00", "\u1100")
    ),
    *(
        text.encode()
        for text in ("\u4e00", "\u0915", "\u093f", "\xb7", "\ufffd", "\U0001d400", "\U0001f600", "\u2063")
    ),
    *("\ufdfa\xbd\u3316\u0130".encode("utf-16-le")[n : n + 2] for n in range(0, 8, 2)),
)


def changed(recipe: Recipe, draw: random.Random) -> Recipe:
    """Return the recipe with one thing that is another, drawn at random."""
    match draw.randrange(9):
        case 0:
            return replace(recipe, charset=draw.choice(_CHARSETS))
        case 1:
            return replace(recipe, content_type=draw.choice(_TYPES))
        case 2:
            return replace(recipe, encoding=draw.choice(_ENCODINGS))
        case 3:
            return replace(recipe, place=draw.choice(list(Place)), parts=draw.choice((1, 5, 19, 60, 190)))
        case 4:
            return replace(recipe, field=draw.choice(_FIELDS))
        case 5:
            return replace(recipe, unit=tuple(draw.choices(_ATOMS, k=draw.randint(1, 6))))
    return replace(recipe, unit=_changed_unit(recipe.unit, draw))


def _changed_unit(unit: Unit, draw: random.Random) -> Unit:
    at = draw.randrange(len(unit) + 1)
    inserted = tuple(draw.choices(_ATOMS, k=draw.randint(0, 2)))
    rest = unit[at + draw.randint(0, 2) :]
    return (unit[:at] + inserted + rest)[:40] or (draw.choice(_ATOMS),)


def search(seconds: float, seed: int) -> tuple[int, list[tuple[float, Recipe]]]:
    """Search for so long; return how many recipes were tried, and the worst with their ratios, the worst first."""
    draw = random.Random(seed)
    base = cpu_seconds(ordinary_text(_SEARCH_SIZE), 5)
    worst: dict[object, tuple[float, Recipe]] = {}
    for known in KNOWN.values():
        _keep(worst, _ratio(known, base), known)
    deadline = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < deadline:
        # Of three the worst one is changed: the worst recipes are changed often, and the others now and then.
        _, parent = max(draw.choices(list(worst.values()), k=3), key=lambda rated: rated[0])
        recipe = changed(parent, draw)
        _keep(worst, _ratio(recipe, base), recipe)
        tried += 1
    return tried, sorted(worst.values(), key=lambda rated: -rated[0])


def _keep(worst: dict[object, tuple[float, Recipe]], ratio: float, recipe: Recipe) -> None:
    """Keep the recipe if it is the worst of its kind: else all of them would soon be alike."""
    kind = (recipe.place, recipe.content_type, recipe.charset, recipe.encoding)
    if ratio > worst.get(kind, (0.0, recipe))[0]:
        worst[kind] = (ratio, recipe)


def _ratio(recipe: Recipe, base: float) -> float:
    raw = recipe.message(_SEARCH_SIZE)
    # A message of few bytes costs its header, and no size of it costs much more.
    return cpu_seconds(raw, 1) / base if len(raw) > _SEARCH_SIZE // 2 else 0.0


def main() -> None:
    """Search, and print the worst ten."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tried, population = search(arguments.seconds, arguments.seed)
    base = cpu_seconds(ordinary_text(), 5)
    print(f"{tried} recipes were tried; ordinary text of {SIZE} bytes costs {base * 1000:.0f} ms")
    measured = [(cpu_seconds(recipe.message(SIZE)) / base, recipe) for _, recipe in population[: 3 * _WORST]]
    for ratio, recipe in sorted(measured, key=lambda rated: -rated[0])[:_WORST]:
        print(f"{ratio:5.1f}  {recipe}")


if __name__ == "__main__":
    main()
