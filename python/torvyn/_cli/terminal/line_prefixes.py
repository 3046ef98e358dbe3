"""Patterns for the beginnings of Markdown lines, complete and partial."""

from __future__ import annotations

import re
from typing import Final

ROW_LIMIT: Final = 4000
"""A longer line is plain text."""

QUOTE: Final = re.compile(r"(?P<indent> *)>")
HEADING: Final = re.compile(r" *(?P<mark>#{1,6}) ")
ITEM: Final = re.compile(r"(?P<indent> *)(?P<mark>[-*+]|\d{1,9}[.)])(?: (?=[^\n])| *(?=\n))")
TASK: Final = re.compile(r"\[(?P<done>[ xX])\] ")
FENCE: Final = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)\n")
RULE: Final = re.compile(r" *([-*_])(?: *\1){2,} *\n")
MAY_BE_RULE: Final = re.compile(r" *([-*_])(?: *\1){0,79} *")
ROW: Final = re.compile(r"(?P<indent> *)\|[^\n]*\n")
BLANK: Final = re.compile(r" *\n")
MAY_BE_BLOCK: Final = re.compile(
    r" {0,40}(?:#{0,6}|[-*+] ?|\d{1,9}(?:[.)] ?)?|`{1,2}|~{1,2}|(?:`{3,40}|~{3,40})[^`\n]{0,60}"
    rf"|([-*_])(?: *\1){{0,79}} *|\|[^\n]{{0,{ROW_LIMIT}}})"
)
MAY_BE_TASK: Final = re.compile(r"\[(?:[ xX]\]?)?")
CLOSING: Final = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *\n")
MAY_CLOSE: Final = re.compile(r" {0,40}(?:`{0,40}|~{0,40}) {0,9}")
MAY_BE_DASHES: Final = re.compile(rf"[ |:-]{{0,{ROW_LIMIT}}}")
MAY_BE_ROW: Final = re.compile(rf" {{0,40}}(?:\|[^\n]{{0,{ROW_LIMIT}}})?")
