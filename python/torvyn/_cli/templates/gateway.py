"""The parts of the template `gateway`: readings, a detector, and an uplink behind an edge that
keeps its elements on the disk."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Final

READINGS: Final = ("21.0", "21.1", "20.9", "21.0", "21.2", "35.5", "21.1", "21.0")

DETECTOR: Final = dedent('''\
    """Scores each reading: its distance from the moving mean, in standard deviations."""

    import json
    import math

    import torvyn

    ALPHA, CLIP, NOISE, THRESHOLD = 0.1, 3.0, 0.01, 4.0


    class Detector(torvyn.Processor):
        unit = "readings"

        def init(self, config: str) -> None:
            self.mean: float | None = None
            self.variance = 0.0

        def process(self, element: torvyn.Element) -> torvyn.Output:
            try:
                value = float(element.text)
            except ValueError:
                raise torvyn.InvalidInput("the reading is not a number") from None
            score = self.learn(value)
            anomaly = json.dumps(score > THRESHOLD)
            text = f'{{"value": {element.text}, "score": {score:.2f}, "anomaly": {anomaly}}}'
            return torvyn.Output(text, content_type="application/json")

        def learn(self, value: float) -> float:
            mean = value if self.mean is None else self.mean
            deviation = math.sqrt(self.variance + NOISE)
            distance = value - mean
            score = abs(distance) / deviation
            # An anomaly must not become the new normal.
            distance = max(-CLIP * deviation, min(CLIP * deviation, distance))
            self.mean = mean + ALPHA * distance
            self.variance = (1 - ALPHA) * (self.variance + ALPHA * distance * distance)
            return score
''')

NODES: Final = {
    "readings": f"""\
# With a broker: component = "mqtt", config = {{ url = "mqtt://broker", topics = ["sensors/#"] }}
component = "scripted"
config = {{ tokens = {json.dumps(READINGS)} }}
unit = "readings\"""",
    "detector": 'component = "detector"\non_error = "skip"',
    "uplink": """\
# With a server: component = "http", config = { url = "https://example.com/readings" }
component = "console\"""",
}

DISK_EDGE: Final = """\
# Readings wait on the disk until the uplink has them, also through a power cut.
carrier = "disk"
max_bytes = "64MiB"
"""

OUTPUT: Final = """\
{"value": 21.0, "score": 0.00, "anomaly": false}
{"value": 21.1, "score": 1.00, "anomaly": false}
{"value": 20.9, "score": 1.05, "anomaly": false}
{"value": 21.0, "score": 0.01, "anomaly": false}
{"value": 21.2, "score": 1.86, "anomaly": false}
{"value": 35.5, "score": 117.57, "anomaly": true}
{"value": 21.1, "score": 0.27, "anomaly": false}
{"value": 21.0, "score": 0.38, "anomaly": false}
"""

README: Final = dedent("""\
    ## From here to a gateway

    Replace `readings` by a source of the field, such as `mqtt` or `tail`, and `uplink` by `http` or
    `mqtt`: `Torvyn.toml` has the lines.

    The edge between `detector` and `uplink` has `carrier = "disk"`: a reading that the detector has
    passed on is stored in `.torvyn/` before the source may forget it, and stays there until the
    uplink has accepted it. While the uplink is away, at most 64 MiB are stored; then the source has
    to wait.
""")
