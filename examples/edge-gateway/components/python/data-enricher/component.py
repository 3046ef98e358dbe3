"""Adds the fields of its config to every reading: the device, the site, the unit."""

import json

import torvyn


class DataEnricher(torvyn.Processor):
    unit = "readings"

    def init(self, config: str) -> None:
        if not json.loads(config or "{}"):
            raise torvyn.Fatal("the config must be a table with at least one field")
        self.fields = config.strip()[1:]  # with the closing brace

    def process(self, element: torvyn.Element) -> torvyn.Output:
        reading = f"{element.text[:-1]},{self.fields}"
        return torvyn.Output(reading, content_type="application/json")
