"""Safe HTML: names and numbers from files are shown as text, whatever they contain."""

import base64
import html
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heirloom.stats import Interval
from heirloom.storage.files import write_file
from heirloom.wording import printable

POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
ROUNDING = 1e-9  # half a width below this, relative to the mean, is shown as 0


def text(value: object) -> str:
    """Return a value as HTML text, with control characters and markup escaped."""
    return html.escape(printable(value), quote=True)


def script_data(data: Any) -> str:
    """Return data as JSON that may stand in a `<script>` element; NaN and infinity become null."""
    encoded = json.dumps(_without_nan(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return encoded


def packed(values: np.ndarray) -> str:
    """Return an array of float64 in base 64, little endian, which the script of the page reads."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def number(value: float, digits: int = 4) -> str:
    """Return a number with this many significant digits, as people write it."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10 ** (digits + 2) or size < 1e-4:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{min(decimals, digits)}f}".replace("-", "\u2212")


def interval(found: Interval) -> str:
    """Return a mean and half the width of its interval as HTML, such as 1.23 ± 0.04.

    Half the width has two significant digits, and the mean as many decimals.
    """
    mean, half = float(found.mean), float(found.half_width)
    if not math.isfinite(mean) or not math.isfinite(half):
        return number(mean)
    if half <= ROUNDING * max(1.0, abs(mean)):
        return f'{number(mean)} <span class="half">± 0</span>'
    decimals = min(6, max(0, 1 - math.floor(math.log10(half))))
    # Adding 0 turns a negative zero, which rounding can give, into a positive one.
    rounded = (round(x, decimals) + 0.0 for x in (mean, half))
    shown = [f"{x:,.{decimals}f}".replace("-", "\u2212") for x in rounded]
    return f'{shown[0]} <span class="half">± {shown[1]}</span>'


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    classes: str = "",
) -> str:
    """Return a table, given the HTML of its cells; the first cell of a row is its header."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table class="{classes}"><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _without_nan(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    if isinstance(data, np.ndarray):
        return _without_nan(data.tolist())
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data.item() if isinstance(data, np.generic) else data


def whole_page(title: str, head: str, body: str) -> str:
    """Return an HTML page, which may load nothing that is not in it.

    `head` and `body` are HTML, and the title is text.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
{POLICY}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)}</title>
{head}
</head><body>
{body}
</body></html>
"""


def write_page(file: Path, page: str) -> Path:
    """Write a page to a file, and return its path."""
    return write_file(file, page.encode("utf-8", errors="replace"))
