"""A program: runs the flow of a project, says when so many elements are on the disk, and runs on.

python gateway_outage.py MANIFEST COUNT
"""

from __future__ import annotations

import sys
import time

import torvyn


def main(manifest: str, count: int) -> None:
    flow = torvyn.load(manifest).flow("main").start()
    while sum(edge.stored.elements for edge in flow.statistics.edges if edge.stored) < count:
        time.sleep(0.01)
    print("stored", flush=True)
    flow.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
