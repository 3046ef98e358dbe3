"""Scores every reading by how far its channels are from what they usually are.

For each channel it keeps a moving mean and variance, which forget old readings exponentially. The
score is the sum of the distances from the means, in standard deviations. A distance is cut at
`clip` deviations before the detector learns from it, so that an anomaly does not become the new
normal.
"""

import json
import math

import torvyn


class AnomalyDetector(torvyn.Processor):
    unit = "readings"

    def init(self, config: dict[str, float]) -> None:
        self.alpha = config.get("alpha", 0.03)
        self.clip = config.get("clip", 3.0)
        self.noise = config.get("resolution", 1.0) ** 2
        self.threshold = config.get("threshold", 15.0)
        self.mean: list[float] = []
        self.variance: list[float] = []

    def process(self, element: torvyn.Element) -> torvyn.Output:
        reading = element.text
        channels = json.loads(reading).get("channels")
        if not channels or (self.mean and len(channels) != len(self.mean)):
            raise torvyn.InvalidInput(
                "the reading has no channels, or not as many as the first one"
            )
        if not self.mean:
            self.mean = [float(value) for value in channels]
            self.variance = [0.0] * len(channels)
        score = self.learn(channels)
        is_anomaly = "true" if score > self.threshold else "false"
        scored = f'{reading[:-1]},"score":{score!r},"anomaly":{is_anomaly}}}'
        return torvyn.Output(scored, content_type="application/json")

    def learn(self, channels: list[float]) -> float:
        score = 0.0
        for i, value in enumerate(channels):
            # A sensor that never moved still has the noise of its resolution.
            deviation = math.sqrt(self.variance[i] + self.noise)
            distance = value - self.mean[i]
            score += abs(distance) / deviation
            distance = max(-self.clip * deviation, min(self.clip * deviation, distance))
            self.mean[i] += self.alpha * distance
            learned = self.variance[i] + self.alpha * distance * distance
            self.variance[i] = (1.0 - self.alpha) * learned
        return score

    def snapshot(self) -> dict[str, list[float]]:
        return {"mean": self.mean, "variance": self.variance}

    def restore(self, state: dict[str, list[float]]) -> None:
        self.mean, self.variance = state["mean"], state["variance"]
