"""pySBD: whole texts with their language; one that it does not have is read as English."""

# The peer may be absent or untyped; mypy must say the same in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations


def segment(language: str, text: str) -> list[str]:
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    known = language if language in LANGUAGE_CODES else "en"
    return list(pysbd.Segmenter(language=known, clean=False).segment(text))
