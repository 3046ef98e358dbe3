"""Reports: what runs on a device and how it does, sent to whoever looks after the devices.

A report is a JSON object, posted over HTTP. Any server can receive it; `torvyn fleet serve` is a
small one that keeps the newest report of each device in a folder.

report     what a report says, and reading one from outside
heartbeat  posts reports while a deployment runs
collector  the server that receives reports
"""

from torvyn.edge.reporting.heartbeat import Heartbeat
from torvyn.edge.reporting.report import Report

__all__ = ["Heartbeat", "Report"]
