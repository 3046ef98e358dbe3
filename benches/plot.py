"""A plot of costs as SVG: one labelled dot per entry on a logarithmic scale, for light and dark.

It renders figures that were measured before; it must never compute one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH, ROW, TOP, BOTTOM = 800, 27, 52, 34
LEFT, RIGHT = 262, 84
STYLE: Final = """\
text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;\
font-size:13px;fill:#1f2328}
.page{fill:#ffffff;stroke:#d0d7de}
.title{font-weight:600}
.note,.tick{font-size:11px;fill:#59636e}
.tick{text-anchor:middle}
.label{text-anchor:end}
.value{paint-order:stroke;stroke:#ffffff;stroke-width:4px}
.grid{stroke:#d0d7de}
.dot{fill:#818b98}
.ours .dot{fill:#0969da}
.ours text{font-weight:600}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}
.page{fill:#0d1117;stroke:#30363d}
.note,.tick{fill:#9198a1}
.grid{stroke:#30363d}
.value{stroke:#0d1117}
.dot{fill:#818b98}
.ours .dot{fill:#58a6ff}
}
"""


@dataclass(frozen=True, slots=True)
class Dot:
    label: str
    value: float
    is_ours: bool = False


def render(title: str, note: str, unit: str, dots: Sequence[Dot]) -> str:
    """The plot, with the smallest value on top."""
    rows = sorted(dots, key=lambda dot: dot.value)
    first = math.floor(math.log10(rows[0].value))
    last = math.ceil(math.log10(rows[-1].value))
    height = TOP + ROW * len(rows) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="16" y="27">{escape(title)}</text>',
        f'<text class="note" x="{WIDTH - 16}" y="27" text-anchor="end">{escape(note)}</text>',
        *_scale(first, last, height, unit),
        *(_row(at, dot, first, last, unit) for at, dot in enumerate(rows)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _scale(first: int, last: int, height: int, unit: str) -> Iterator[str]:
    for power in range(first, last + 1):
        x, bottom = _x(10**power, first, last), height - BOTTOM
        yield f'<path class="grid" d="M{x} {TOP - 8}V{bottom}"/>'
        yield f'<text class="tick" x="{x}" y="{bottom + 18}">{10**power:g} {unit}</text>'


def _row(at: int, dot: Dot, first: int, last: int, unit: str) -> str:
    x, y = _x(dot.value, first, last), TOP + ROW * at + ROW // 2 - 4
    value = f"{dot.value:.2f}" if dot.value < 1 else f"{dot.value:.1f}"
    kind = ' class="ours"' if dot.is_ours else ""
    return (
        f"<g{kind}>"
        f'<text class="label" x="{LEFT - 18}" y="{y + 4.5}">{escape(dot.label)}</text>'
        f'<circle class="dot" cx="{x}" cy="{y}" r="5.5"/>'
        f'<text class="value" x="{round(x + 12, 1)}" y="{y + 4.5}">{value} {unit}</text></g>'
    )


def _x(value: float, first: int, last: int) -> float:
    share = (math.log10(value) - first) / (last - first)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)
