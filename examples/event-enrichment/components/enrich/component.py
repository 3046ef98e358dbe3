"""Adds data about its device to each event, from a table."""

import json
from pathlib import Path
from typing import Any

import torvyn


class Enrich(torvyn.Processor):
    unit = "events"

    def init(self, config: dict[str, str]) -> None:
        self.field = config["field"]
        self.table: dict[str, dict[str, Any]] = json.loads(Path(config["table"]).read_text())

    def process(self, element: torvyn.Element) -> torvyn.Output:
        event = json.loads(element.text)
        known = self.table.get(event.get(self.field))
        if known is None:
            # The event is at fault, not this component: `on_error` decides what happens to it.
            raise torvyn.InvalidInput(f"no device {event.get(self.field)!r} in the table")
        return torvyn.Output(json.dumps(event | known), content_type="application/json")
