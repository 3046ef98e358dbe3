"""Reads sensor readings from a CSV file, one element per line; its config is the path of the file,
in a folder that the manifest grants.

The last column says whether the reading is an anomaly. It is left out: a detector must not see it.
"""

from typing import TextIO

import torvyn


class SensorSource(torvyn.Source):
    unit = "readings"

    def init(self, config: str) -> None:
        self.file: TextIO = open(config, encoding="ascii")  # noqa: SIM115
        self.file.readline()  # the names of the columns
        self.sequence = 0

    def pull(self) -> torvyn.Output | None:
        line = self.file.readline()
        if not line:
            return None
        channels, comma, _ = line.rpartition(",")
        if not comma:
            raise torvyn.InvalidInput("a line of the file is not a reading")
        reading = f'{{"seq":{self.sequence},"channels":[{channels}]}}'
        self.sequence += 1
        return torvyn.Output(reading, content_type="application/json")

    def snapshot(self) -> dict[str, int]:
        return {"position": self.file.tell(), "sequence": self.sequence}

    def restore(self, state: dict[str, int]) -> None:
        self.file.seek(state["position"])
        self.sequence = state["sequence"]

    def teardown(self) -> None:
        self.file.close()
