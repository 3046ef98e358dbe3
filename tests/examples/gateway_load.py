"""A program: runs some flows of a project at the same time; prints its memory and their states.

python gateway_load.py MANIFEST FLOWS
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import torvyn


def peak_rss_bytes() -> int:
    """Not `ru_maxrss`: that begins with the memory of the process which started this one."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def main(manifest: str, names: list[str]) -> None:
    project = torvyn.load(manifest)
    flows = [project.flow(name) for name in names]
    for flow in flows:
        flow.start()
    for flow in flows:
        flow.wait()
    report = {
        "states": Counter(flow.state for flow in flows),
        "produced": sum(flow.statistics.produced for flow in flows),
        "live": sum(flow.statistics.live for flow in flows),
        "peak_rss_bytes": peak_rss_bytes(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
