"""WebSocket by the Autobahn test suite, which needs Python 2.7 and an environment of its own.

The suite talks to a server that sends every message back, on the options of the real server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benches.conformance.suite import TOOLS, CaseResult, SuiteMissing, SuiteResult

VERSION: Final = "25.10.1"
RUN_S: Final = 900
LEFT_OUT: Final = ["12.*", "13.*"]
"""Compression, which the server does not offer."""
AGENT: Final = "torvyn"
_CHECKED_WHOLE: Final = "the text of a frame is checked when the frame is complete"
_NOT_JUDGED: Final = "the suite records what the server does and does not judge it"
REASONS: Final = {
    "6.4.3": _CHECKED_WHOLE,
    "6.4.4": _CHECKED_WHOLE,
    "7.1.6": _NOT_JUDGED,
    "7.13.1": _NOT_JUDGED,
    "7.13.2": _NOT_JUDGED,
}
OUTCOMES: Final = {"OK": "passed", "INFORMATIONAL": "informational", "NON-STRICT": "non-strict"}


def program() -> Path:
    path = TOOLS / "autobahn" / "bin" / "wstest"
    if path.exists():
        return path
    python = _python2()
    if python is None:
        raise SuiteMissing("Autobahn needs Python 2.7, which is not installed")
    steps = (
        [python, "-m", "pip", "install", "--quiet", "--user", "virtualenv<20.22"],
        [python, "-m", "virtualenv", "--quiet", "-p", python, str(TOOLS / "autobahn")],
        [str(path.with_name("pip")), "install", "--quiet", f"autobahntestsuite=={VERSION}"],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SuiteMissing(f"Autobahn could not be installed: {done.stderr.strip()[-200:]}")
    return path


def _python2() -> str | None:
    """From the path, or from pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    made = sorted(root.glob("2.7.*/bin/python2.7"))
    return str(made[-1]) if made else shutil.which("python2.7")


def run(port: int, name: str) -> SuiteResult:
    with tempfile.TemporaryDirectory() as folder:
        specification = {
            "outdir": folder,
            "servers": [{"agent": AGENT, "url": f"ws://127.0.0.1:{port}"}],
            "cases": ["*"],
            "exclude-cases": LEFT_OUT,
        }
        file = Path(folder, "specification.json")
        file.write_text(json.dumps(specification))
        command = [str(program()), "-m", "fuzzingclient", "-s", str(file)]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=RUN_S, check=False)
        index = Path(folder, "index.json")
        if not index.exists():
            raise SuiteMissing("Autobahn wrote no report")
        return SuiteResult(name, list(_cases(json.loads(index.read_text())[AGENT])))


def _cases(results: dict[str, dict[str, str]]) -> Iterator[CaseResult]:
    for number, result in results.items():
        worst = max((result["behavior"], result["behaviorClose"]), key=_rank)
        reason = "" if worst == "OK" else REASONS.get(number, worst)
        yield CaseResult(number, OUTCOMES.get(worst, "failed"), reason)


def _rank(outcome: str) -> int:
    return ("OK", "INFORMATIONAL", "NON-STRICT").index(outcome) if outcome in OUTCOMES else 3
