"""Adds the fields of its config to every reading: the device, the site, the unit."""

import json
from typing import Any

import torvyn


class DataEnricher(torvyn.Processor):
    unit = "readings"

    def init(self, config: dict[str, Any]) -> None:
        if not config:
            raise torvyn.Fatal("the config must be a table with at least one field")
        self.fields = json.dumps(config, ensure_ascii=False)[1:]  # with the closing brace

    def process(self, element: torvyn.Element) -> torvyn.Output:
        reading = f"{element.text[:-1]},{self.fields}"
        return torvyn.Output(reading, content_type="application/json")
