"""pySBD: whole texts with their language; unknown languages are treated as English."""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations


def segment(language: str, text: str) -> list[str]:
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    known = language if language in LANGUAGE_CODES else "en"
    return list(pysbd.Segmenter(language=known, clean=False).segment(text))
