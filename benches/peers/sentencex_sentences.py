"""sentencex of the Wikimedia Foundation: whole texts, each with its language."""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations


def segment(language: str, text: str) -> list[str]:
    import sentencex

    return list(sentencex.segment(language, text))
