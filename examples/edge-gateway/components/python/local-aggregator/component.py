"""Reduces a window of readings to one element: count, minimum, maximum and mean of every channel.

Anomalies are kept whole, with all their fields.
"""

import json
from typing import Any

import torvyn

ORIGIN = ("device", "site", "unit")
"""The fields that say where the readings come from."""


class LocalAggregator(torvyn.Aggregator):
    unit = "windows"

    def init(self, config: dict[str, int]) -> None:
        self.window = config.get("window", 100)
        self.readings: list[dict[str, Any]] = []

    def ingest(self, element: torvyn.Element) -> torvyn.Output | None:
        reading = json.loads(element.text)
        channels = reading.get("channels")
        if not channels or any(
            len(channels) != len(each["channels"]) for each in self.readings[:1]
        ):
            raise torvyn.InvalidInput(
                "the reading has no channels, or not as many as the first one"
            )
        self.readings.append(reading)
        return self.summary() if len(self.readings) == self.window else None

    def flush(self) -> list[torvyn.Output]:
        return [self.summary()] if self.readings else []

    def snapshot(self) -> list[dict[str, Any]]:
        return self.readings

    def restore(self, state: list[dict[str, Any]]) -> None:
        self.readings = state

    def summary(self) -> torvyn.Output:
        readings, self.readings = self.readings, []
        columns = zip(*(reading["channels"] for reading in readings), strict=True)
        summary = {field: readings[0].get(field, "") for field in ORIGIN} | {
            "first": readings[0]["seq"],
            "last": readings[-1]["seq"],
            "count": len(readings),
            "channels": [_figures(column) for column in columns],
            "anomalies": [reading for reading in readings if reading.get("anomaly")],
        }
        text = json.dumps(summary, separators=(",", ":"))
        return torvyn.Output(text, content_type="application/json")


def _figures(column: tuple[float, ...]) -> dict[str, float]:
    return {"min": min(column), "max": max(column), "mean": sum(column) / len(column)}
