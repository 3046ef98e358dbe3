"""A Plan as a picture: SVG for pages, and Mermaid and DOT for tools that lay out graphs themselves.

The SVG is laid out from left to right. Nodes stand in even columns, the queues of their edges in
the odd columns between them, and an edge that spans several columns keeps a free lane in each. So
every line runs either between two columns or along a lane, and never through a node.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from torvyn._contract.units import render_size
from torvyn._io.safe_text import escape_controls
from torvyn._link.plan import EdgePlan, NodePlan, Plan

# Colours of GitHub's pages: text on them has a contrast of 4.5 or more, in both schemes.
_ROLES: Final = {
    "source": ("#1a7f37", "#3fb950"),
    "filter": ("#9a6700", "#d29922"),
    "processor": ("#0969da", "#58a6ff"),
    "router": ("#8250df", "#bc8cff"),
    "aggregator": ("#0e7490", "#39c5cf"),
    "sink": ("#bc4c00", "#f0883e"),
}
_SURFACES: Final = {
    ".page": ("fill:#ffffff;stroke:#d0d7de", "fill:#0d1117;stroke:#30363d"),
    ".node": ("fill:#f6f8fa;stroke:#d0d7de", "fill:#161b22;stroke:#3d444d"),
    ".name": ("fill:#1f2328", "fill:#f0f6fc"),
    ".component,.label": ("fill:#59636e", "fill:#9198a1"),
    ".edge,.slot": ("stroke:#818b98", "stroke:#6e7681"),
    ".arrow": ("fill:#818b98", "fill:#6e7681"),
    ".queue": ("fill:#ffffff;stroke:#818b98", "fill:#0d1117;stroke:#6e7681"),
}
_SANS: Final = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif'
_MONO: Final = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
_SHAPES: Final = f"""\
text{{font-family:{_SANS}}}
.role{{font-size:10px;font-weight:600;letter-spacing:.5px;fill:currentColor}}
.name,.component{{font-family:{_MONO}}}
.name{{font-size:13px;font-weight:700}}
.component{{font-size:11px}}
.label{{font-size:10.5px;text-anchor:middle}}
.bar{{fill:currentColor}}
.edge{{fill:none;stroke-width:1.5}}
.durable{{stroke-dasharray:5 4}}
"""
_MARGIN: Final = 16.0
_PADDING: Final = 14.0
_ROW_GAP: Final = 18.0
_QUEUE_WIDTH, _QUEUE_HEIGHT, _SLOTS = 50.0, 18.0, 5
_LABEL_HEIGHT: Final = 13.0
_ARROW: Final = 7.0
_MAX_LETTERS: Final = 32
_ORDER_SWEEPS, _PLACE_SWEEPS = 8, 60
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(eq=False, slots=True)
class _Box:
    """A node, a queue, or the lane of an edge in a column. `y` is where its line passes."""

    column: int
    width: float = 0.0
    above: float = 4.0
    below: float = 4.0
    y: float = 0.0
    rank: int = 0
    """Its place in the column, from the top."""
    before: list[_Box] = field(default_factory=list)
    after: list[_Box] = field(default_factory=list)

    def follow(self, other: _Box) -> None:
        other.after.append(self)
        self.before.append(other)

    def port(self, others: Sequence[_Box], wanted: _Box) -> float:
        """Where the line to one of its neighbours on that side begins."""
        position = sorted(others, key=lambda box: box.rank).index(wanted)
        step = min(14.0, (self.above + self.below - 16) / len(others))
        return self.y + (position - (len(others) - 1) / 2) * step


def render_svg(plan: Plan) -> str:
    """The picture as one SVG, which follows the reader's light or dark scheme."""
    return _Drawing(plan).render()


def render_mermaid(plan: Plan) -> str:
    """The picture as a Mermaid flowchart, which GitHub draws in a block ```mermaid."""
    text = _Text(plan, _mermaid)
    ids = {node.name: f"n{number}" for number, node in enumerate(plan.nodes)}
    lines = ["flowchart LR"]
    for node in plan.nodes:
        parts = [f"<b>{text(node.name)}</b>", f"<i>{text(node.role)}</i>"]
        parts += map(text, _node_lines(node)[1:])
        lines.append(f'  {ids[node.name]}["{"<br/>".join(parts)}"]')
    for edge in plan.edges:
        label = "<br/>".join(map(text, [*_port_lines(edge), *_queue_lines(edge)]))
        arrow = "-->" if edge.carrier == "memory" else "-.->"
        lines.append(f'  {ids[edge.source]} {arrow}|"{label}"| {ids[edge.target]}')
    return "\n".join(lines) + "\n"


def render_dot(plan: Plan) -> str:
    """The picture in the language of Graphviz."""
    text = _Text(plan, _dot)
    lines = [f'digraph "{text(plan.name)}" {{', "  rankdir=LR", "  node [shape=box, style=rounded]"]
    for node in plan.nodes:
        label = "\\n".join(map(text, [node.name, *_node_lines(node)]))
        lines.append(f'  "{text(node.name)}" [label="{label}"]')
    for edge in plan.edges:
        label = "\\n".join(map(text, [*_port_lines(edge), *_queue_lines(edge)]))
        style = "" if edge.carrier == "memory" else ", style=dashed"
        ends = f'"{text(edge.source)}" -> "{text(edge.target)}"'
        lines.append(f'  {ends} [label="{label}"{style}]')
    return "\n".join([*lines, "}"]) + "\n"


class _Text:
    """Texts of a manifest, without secrets and controls, in the notation of a format."""

    def __init__(self, plan: Plan, notation: Callable[[str], str]) -> None:
        self._plan = plan
        self._notation = notation

    def __call__(self, text: str) -> str:
        plain = escape_controls(" ".join(self._plan.redact(text).split()))
        return self._notation(_NOT_IN_XML.sub("\ufffd", plain))


def _mermaid(text: str) -> str:
    return re.sub(r'[#&<>"`]', lambda found: f"#{ord(found[0])};", text)


def _dot(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _node_lines(node: NodePlan) -> list[str]:
    """The role of a node, and its component if that has another name."""
    return [node.role, *([] if node.component.name == node.name else [node.component.name])]


def _port_lines(edge: EdgePlan) -> list[str]:
    """The port and the input of an edge, unless both have the usual names."""
    names = [edge.port] if edge.port != "output" else []
    if edge.input != "input":
        names.append(f"to {edge.input}")
    return [" ".join(names)] if names else []


def _queue_lines(edge: EdgePlan) -> list[str]:
    """The carrier of an edge, the capacity of its queue, and what happens when it is full."""
    if edge.carrier == "memory":
        return [f"{edge.depth} elements", f"{render_size(edge.bytes)}, {edge.backpressure}"]
    waiting = [f"{edge.max_waiting} batches per key"] if edge.carrier == "nats" else []
    order = "" if edge.order == "oldest-first" else f", {edge.order}"
    size = f"{edge.carrier}, {render_size(edge.max_bytes)}"
    return [size, *waiting, f"{edge.backpressure}{order}"]


class _Drawing:
    """The layout of a Plan, and its SVG."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._text = _Text(plan, lambda text: text)
        self._nodes = {
            node.name: self._node_box(node, column) for node, column in _columns_of(plan)
        }
        self._lanes = [self._lane(edge) for edge in plan.edges]
        boxes = [*self._nodes.values(), *(box for lane in self._lanes for box in lane)]
        count = 1 + max((box.column for box in boxes), default=0)
        self._columns: list[list[_Box]] = [[] for _ in range(count)]
        for box in boxes:
            self._columns[box.column].append(box)
        self._make_room()
        _sort(self._columns)
        _place(self._columns)
        self._lefts, self._rights = _horizontally(self._columns)
        self._top = min((box.y - box.above for box in boxes), default=0.0) - _MARGIN
        self._bottom = max((box.y + box.below for box in boxes), default=0.0) + _MARGIN

    def _node_box(self, node: NodePlan, column: int) -> _Box:
        width = max(_width(text, size) for text, size in self._lines(node)) + 2 * _PADDING
        half = (20 + 16 * len(self._lines(node))) / 2
        return _Box(column, max(width, 88.0), half, half)

    def _lines(self, node: NodePlan) -> list[tuple[str, float]]:
        """What a node shows, each with the width of a letter: known where all are as wide."""
        role, *component = map(self._shown, _node_lines(node))
        return [(role.upper(), 7.4), (self._shown(node.name), 7.9), *((c, 6.7) for c in component)]

    def _shown(self, text: str) -> str:
        text = self._text(text)
        return text if len(text) <= _MAX_LETTERS else f"{text[: _MAX_LETTERS - 1]}…"

    def _lane(self, edge: EdgePlan) -> list[_Box]:
        """The queue of an edge, and its lane in each further column that it passes."""
        source, target = self._nodes[edge.source], self._nodes[edge.target]
        above, below = self._labels(edge)
        widths = [_width(text, 5.6) for text in (*above, *below)]
        half = _QUEUE_HEIGHT / 2
        lane = [
            _Box(
                source.column + 1,
                max(_QUEUE_WIDTH, *widths) + 4,
                half + _LABEL_HEIGHT * len(above),
                half + 3 + _LABEL_HEIGHT * len(below),
            )
        ]
        lane += [_Box(column) for column in range(source.column + 2, target.column)]
        for one, next_one in pairwise([source, *lane, target]):
            next_one.follow(one)
        return lane

    def _labels(self, edge: EdgePlan) -> tuple[list[str], list[str]]:
        return [*map(self._shown, _port_lines(edge))], [*map(self._text, _queue_lines(edge))]

    def _make_room(self) -> None:
        """Makes nodes high enough for the lines that end at them, and all of a column as wide."""
        for box in self._nodes.values():
            half = 8 + 5 * max(len(box.before), len(box.after), 1)
            box.above = box.below = max(box.above, half)
            box.width = max(other.width for other in self._columns[box.column] if other.width)

    def render(self) -> str:
        width = self._rights[-1] + 2 * _MARGIN
        size = f'width="{_n(width)}" height="{_n(self._bottom - self._top)}"'
        plan = self._plan
        about = f"{plan.name}: {plan.description}" if plan.description else plan.name
        edges = zip(plan.edges, self._lanes, strict=True)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
                f'viewBox="0 0 {_n(width)} {_n(self._bottom - self._top)}">',
                f"<title>{self._xml(f'flow {about}')}</title>",
                f"<style>\n{_style()}</style>",
                f'<rect class="page" x="0.5" y="0.5" width="{_n(width - 1)}" '
                f'height="{_n(self._bottom - self._top - 1)}" rx="8"/>',
                f'<g transform="translate({_n(_MARGIN)} {_n(-self._top)})">',
                *(self._edge(edge, lane) for edge, lane in edges),
                *map(self._node, plan.nodes),
                "</g>",
                "</svg>\n",
            ]
        )

    def _xml(self, text: str) -> str:
        return escape(self._text(text), {'"': "&quot;"})

    def _node(self, node: NodePlan) -> str:
        box = self._nodes[node.name]
        left, top, height = self._lefts[box.column], box.y - box.above, box.above + box.below
        frame = f'x="{_n(left)}" y="{_n(top)}" height="{_n(height)}"'
        lines = self._lines(node)
        first = box.y - 8 * len(lines) + 12
        texts = zip(("role", "name", "component"), lines, strict=False)
        return "\n".join(
            [
                f'<g class="{node.role if node.role in _ROLES else "processor"}">',
                f"<title>{self._xml(f'{node.role} {node.name}: {node.component.name}')}</title>",
                f'<rect class="node" {frame} width="{_n(box.width)}" rx="7"/>',
                f'<path class="bar" d="M{_n(left + 5)} {_n(top)}a5 5 0 0 0 -5 5'
                f'v{_n(height - 10)}a5 5 0 0 0 5 5z"/>',
                *(
                    f'<text class="{kind}" x="{_n(left + _PADDING)}" y="{_n(first + 17 * row)}">'
                    f"{escape(text)}</text>"
                    for row, (kind, (text, _)) in enumerate(texts)
                ),
                "</g>",
            ]
        )

    def _edge(self, edge: EdgePlan, lane: Sequence[_Box]) -> str:
        queue, end = lane[0], self._nodes[edge.target]
        kind = "edge" if edge.carrier == "memory" else "edge durable"
        x, y = self._lefts[end.column], end.port(end.before, lane[-1])
        about = f"{edge.source}:{edge.port} to {edge.target}: {', '.join(_queue_lines(edge))}"
        return "\n".join(
            [
                "<g>",
                f"<title>{self._xml(about)}</title>",
                f'<path class="{kind}" d="{self._route(edge, lane)}"/>',
                f'<path class="arrow" d="M{_n(x)} {_n(y)}l{_n(-_ARROW)} -4v8z"/>',
                *self._queue(edge, queue),
                "</g>",
            ]
        )

    def _route(self, edge: EdgePlan, lane: Sequence[_Box]) -> str:
        source, target = self._nodes[edge.source], self._nodes[edge.target]
        x, y = self._rights[source.column], source.port(source.after, lane[0])
        parts = [f"M{_n(x)} {_n(y)}"]
        for box in lane:
            parts += [_curve(x, y, self._lefts[box.column], box.y)]
            x, y = self._rights[box.column], box.y
            parts += [f"H{_n(x)}"]
        last = self._lefts[target.column] - _ARROW + 1
        return "".join([*parts, _curve(x, y, last, target.port(target.before, lane[-1]))])

    def _queue(self, edge: EdgePlan, box: _Box) -> Iterable[str]:
        center = (self._lefts[box.column] + self._rights[box.column]) / 2
        left, top = center - _QUEUE_WIDTH / 2, box.y - _QUEUE_HEIGHT / 2
        above, below = self._labels(edge)
        size = f'width="{_n(_QUEUE_WIDTH)}" height="{_n(_QUEUE_HEIGHT)}"'
        yield f'<rect class="queue" x="{_n(left)}" y="{_n(top)}" {size} rx="4"/>'
        marks = (left + _QUEUE_WIDTH * slot / _SLOTS for slot in range(1, _SLOTS))
        lines = "".join(f"M{_n(mark)} {_n(top)}v{_n(_QUEUE_HEIGHT)}" for mark in marks)
        yield f'<path class="slot" d="{lines}"/>'
        first = box.y + _QUEUE_HEIGHT / 2 + _LABEL_HEIGHT + 1
        rows = [(text, top - 5) for text in above]
        rows += [(text, first + _LABEL_HEIGHT * row) for row, text in enumerate(below)]
        for text, y in rows:
            yield f'<text class="label" x="{_n(center)}" y="{_n(y)}">{escape(text)}</text>'


def _columns_of(plan: Plan) -> Iterable[tuple[NodePlan, int]]:
    """Each node with its column: right of all that it receives from, sources close to theirs."""
    columns = dict.fromkeys((node.name for node in plan.nodes), 0)
    for node in plan.nodes:
        for edge in plan.edges:
            if edge.source == node.name:
                columns[edge.target] = max(columns[edge.target], columns[node.name] + 2)
    fed = {edge.target for edge in plan.edges}
    for node in plan.nodes:
        targets = [columns[edge.target] for edge in plan.edges if edge.source == node.name]
        if node.name not in fed and targets:
            columns[node.name] = min(targets) - 2
    return [(node, columns[node.name]) for node in plan.nodes]


def _sort(columns: Sequence[list[_Box]]) -> None:
    """Sorts each column so that few lines cross: by the mean place of the neighbours."""
    best = _ranked(columns)
    fewest = _crossings(columns)
    for sweep in range(_ORDER_SWEEPS):
        is_forward = sweep % 2 == 0
        for column in columns if is_forward else reversed(columns):
            column.sort(key=lambda box: _mean_rank(box, box.before if is_forward else box.after))
            _ranked([column])
        crossings = _crossings(columns)
        if crossings < fewest:
            best, fewest = _ranked(columns), crossings
    for column in columns:
        column.sort(key=best.__getitem__)
    _ranked(columns)


def _ranked(columns: Iterable[Sequence[_Box]]) -> dict[_Box, int]:
    for column in columns:
        for rank, box in enumerate(column):
            box.rank = rank
    return {box: box.rank for column in columns for box in column}


def _mean_rank(box: _Box, others: Sequence[_Box]) -> float:
    return sum(other.rank for other in others) / len(others) if others else float(box.rank)


def _crossings(columns: Iterable[Sequence[_Box]]) -> int:
    count = 0
    for column in columns:
        ends: list[int] = []
        for box in column:
            here = sorted(other.rank for other in box.after)
            count += sum(len(ends) - bisect_right(ends, end) for end in here)
            for end in here:
                insort(ends, end)
    return count


def _place(columns: Sequence[Sequence[_Box]]) -> None:
    """Gives each box a height close to its neighbours', so that lines are straight."""
    for column in columns:
        _spread(column, [0.0] * len(column))
    for sweep in range(_PLACE_SWEEPS):
        is_forward = sweep % 2 == 0
        is_last = sweep >= _PLACE_SWEEPS * 3 // 4
        for column in columns if is_forward else reversed(columns):
            _spread(column, [_wished_y(box, is_forward, is_last) for box in column])
    # What is left of a bend goes: a chain continues where its first node stands.
    for column in columns:
        _spread(column, [_wished_y(box, True, False) for box in column])


def _wished_y(box: _Box, is_forward: bool, is_last: bool) -> float:
    """In the middle of its neighbours: first of those on one side, in the end of all."""
    side = box.before if is_forward else box.after
    others = box.before + box.after if is_last or not side else side
    return sum(other.y for other in others) / len(others) if others else box.y


def _spread(column: Sequence[_Box], wished: Sequence[float]) -> None:
    """Moves the boxes as close to the wished heights as their order and their gaps allow.

    An isotonic regression: boxes that would overlap share the mean of their wishes.
    """
    gaps = [one.below + other.above + _ROW_GAP for one, other in pairwise(column)]
    offsets = list(accumulate(gaps, initial=0.0))[: len(column)]
    blocks: list[tuple[float, int]] = []
    for wish, offset in zip(wished, offsets, strict=True):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            more, others = blocks.pop()
            total, count = total + more, count + others
        blocks.append((total, count))
    levels = [total / count for total, count in blocks for _ in range(count)]
    for box, level, offset in zip(column, levels, offsets, strict=True):
        box.y = level + offset


def _horizontally(columns: Sequence[Sequence[_Box]]) -> tuple[list[float], list[float]]:
    """The left and the right side of each column; steep lines get more room."""
    lefts, rights = [0.0], []
    for column in columns:
        rights.append(lefts[-1] + max((box.width for box in column), default=0.0))
        rises = [
            abs(other.port(other.before, box) - box.port(box.after, other))
            for box in column
            for other in box.after
        ]
        lefts.append(rights[-1] + min(64.0, 14 + max(rises, default=0.0) / 3))
    return lefts[:-1], rights


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(to_y - y) < 0.5:
        return f"H{_n(to_x)}"
    middle = _n((x + to_x) / 2)
    return f"C{middle} {_n(y)} {middle} {_n(to_y)} {_n(to_x)} {_n(to_y)}"


def _style() -> str:
    """The colours of both schemes. A page that shows the file as an image has no say in them."""
    light, dark = (
        [
            *(f".{role}{{color:{colours[scheme]}}}" for role, colours in _ROLES.items()),
            *(f"{names}{{{rules[scheme]}}}" for names, rules in _SURFACES.items()),
        ]
        for scheme in (0, 1)
    )
    night = "\n".join(dark)
    rules = _SHAPES + "\n".join(light)
    return f"{rules}\n@media (prefers-color-scheme:dark){{\n{night}\n}}\n"


def _width(text: str, letter: float) -> float:
    return letter * sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def _n(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"
