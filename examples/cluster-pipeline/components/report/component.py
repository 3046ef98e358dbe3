"""One line per sensor, at the end of the stream."""

import json
from collections.abc import Iterator

import torvyn


class Report(torvyn.Aggregator):
    unit = "sensors"

    def __init__(self) -> None:
        super().__init__()
        self.sensors: dict[str, dict[str, float]] = {}

    def ingest(self, element: torvyn.Element) -> None:
        window = json.loads(element.text)
        known = self.sensors.setdefault(window["key"], {"windows": 0, "sum": 0.0, "max": -273.15})
        known["windows"] += 1
        known["sum"] += window["mean"]
        known["max"] = max(known["max"], window["max"])

    def flush(self) -> Iterator[str]:
        # Windows of different sensors arrive in any order; the report does not depend on it.
        for sensor, known in sorted(self.sensors.items()):
            mean = known["sum"] / known["windows"]
            windows = f"{known['windows']:.0f} windows"
            yield f"{sensor}: {windows}, mean {mean:.2f}, max {known['max']:.1f}"

    def snapshot(self) -> dict[str, dict[str, float]]:
        return self.sensors

    def restore(self, state: dict[str, dict[str, float]]) -> None:
        self.sensors = state
