"""HTTP/2 by h2spec, a Go program that is compiled once, outside the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from benches.conformance.suite import TOOLS, CaseResult, SuiteMissing, SuiteResult

MODULE: Final = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
RUN_S: Final = 300
CASE_S: Final = 4
"""How long h2spec waits for the reaction of a case."""

EXPLAINED: Final = {
    "http2/3.5 Sends invalid connection preface": (
        "the port also speaks HTTP/1.1: what does not begin like HTTP/2 gets status 400 in HTTP/1.1"
    ),
}
"""Cases that fail on purpose, without TLS."""


def program() -> Path:
    path = TOOLS / "h2spec"
    if path.exists():
        return path
    if shutil.which("go") is None:
        raise SuiteMissing("h2spec is compiled with Go, which is not installed")
    environment = {**os.environ, "GOBIN": str(TOOLS), "GOFLAGS": "-p=1"}
    done = subprocess.run(
        ["go", "install", MODULE], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SuiteMissing(f"h2spec could not be installed: {done.stderr.strip()[-200:]}")
    return path


def run(port: int, name: str, *, is_tls: bool) -> SuiteResult:
    """All cases, the strict ones included, against a server on that port."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        address = ["--host", "127.0.0.1", "--port", str(port), "--path", "/"]
        options = ["--strict", "--timeout", str(CASE_S), "--junit-report", str(report)]
        tls = ["--tls", "--insecure"] if is_tls else []
        command = [str(program()), *address, *options, *tls]
        subprocess.run(command, capture_output=True, timeout=RUN_S, check=False)
        if not report.exists():
            raise SuiteMissing("h2spec wrote no report")
        explained = {} if is_tls else EXPLAINED
        return SuiteResult(name, list(_cases(report, explained)))


def _cases(report: Path, explained: Mapping[str, str]) -> Iterator[CaseResult]:
    for section in ElementTree.parse(report).getroot().iter("testsuite"):
        for case in section.iter("testcase"):
            name = f"{case.get('package', '')} {case.get('classname', '')}".strip()
            failure = case.find("failure")
            if failure is None:
                failure = case.find("error")
            if failure is not None and name in explained:
                yield CaseResult(name, "explained", explained[name])
            elif failure is not None:
                yield CaseResult(name, "failed", " ".join((failure.text or "").split()))
            elif (skipped := case.find("skipped")) is not None:
                yield CaseResult(name, "skipped", " ".join((skipped.text or "").split()))
            else:
                yield CaseResult(name, "passed")
