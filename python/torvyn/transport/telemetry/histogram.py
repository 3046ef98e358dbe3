"""Histograms in Prometheus' format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from torvyn._observe import metrics as exported


class Histogram:
    """Counts values by the lowest bound that they do not exceed."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> exported.Histogram:
        """What it has counted so far."""
        return exported.Histogram(self._bounds, tuple(self._counts), self._sum)

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            edge = "+Inf" if bound is None else f"{bound:g}"
            yield f"{name}_bucket{render_labels({**labels, 'le': edge})} {total}"
        yield f"{name}_sum{render_labels(labels)} {self._sum:.6f}"
        yield f"{name}_count{render_labels(labels)} {total}"


def render_labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
