"""Presidio's recognisers that work without a language model, one for each kind that it knows.

They are called directly, as `presidio-analyzer` does, except for context words, which need a model.
Results below a score of 0.4, the score of a telephone number, are left out: those patterns only
count with context.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Final

from benches.labelled_lines import Span
from benches.peers import distribution_version

NAME: Final = "presidio"
LOWEST_SCORE: Final = 0.4
RECOGNISERS: Final = {
    "email": "EmailRecognizer",
    "card": "CreditCardRecognizer",
    "phone": "PhoneRecognizer",
    "iban": "IbanRecognizer",
    "ip": "IpRecognizer",
    "ssn": "UsSsnRecognizer",
}


def available() -> str | None:
    if importlib.util.find_spec("presidio_analyzer") is None:
        return "presidio-analyzer is not installed"
    return None


def VERSION() -> str:
    return f"presidio-analyzer {distribution_version('presidio-analyzer')}"


class Presidio:
    def __init__(self) -> None:
        # It looks for a newer list of domains on the network and has one with it.
        logging.getLogger("tldextract").setLevel(logging.CRITICAL)
        from presidio_analyzer import predefined_recognizers

        self._recognisers = {
            kind: getattr(predefined_recognizers, name)() for kind, name in RECOGNISERS.items()
        }

    def __call__(self, text: str) -> list[Span]:
        return [
            Span(kind, result.start, result.end)
            for kind, recogniser in self._recognisers.items()
            for result in recogniser.analyze(text, recogniser.supported_entities, None)
            if result.score >= LOWEST_SCORE
        ]
