"""Reliability: what holds when something goes wrong, measured. `python -m benches.reliability`.

One file per question; each gives `LINES`. A new line is one `Line` in the file it belongs to, and a
new file is one name in `QUESTIONS`.
"""

QUESTIONS = (
    "traps",
    "loops",
    "endings",
    "bombs",
    "reach",
    "compiling",
    "corpus",
    "poison",
    "inference",
    "sessions",
    "keys",
    "telemetry",
    "serving",
)
