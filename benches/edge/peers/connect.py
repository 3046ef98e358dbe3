"""Redpanda Connect: with batches in front of its SQLite buffer, and without a buffer.

Its SQLite buffer runs with `synchronous = 0`. Without batches in front of it, it commits every
reading by itself and is nine times slower; that form has no row.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from benches.edge.build_peers import CONNECT, program
from benches.edge.gateway_process import Launch, Peer, Place
from benches.edge.readings import FILTER, SITE

CONFIG: Final = """\
http:
  enabled: false
logger:
  level: WARN
input:
  broker:
    inputs:
      - mqtt:
          urls: [ "tcp://127.0.0.1:{broker_port}" ]
          topics: [ "{filter}" ]
          client_id: connect
          qos: 1
          clean_session: false
    batching:
      count: 200
      period: 5ms
{buffer}
pipeline:
  threads: 1
  processors:
    - mapping: |
        root = this.without("value")
        root.celsius = this.value
        root.site = "{site}"
output:
  http_client:
    url: "http://127.0.0.1:{collector_port}/readings"
    verb: POST
    max_in_flight: 1
    retries: 1000000
    retry_period: 500ms
    max_retry_backoff: 1s
    batching:
      count: 500
      period: 5ms
      processors:
        - archive:
            format: json_array
"""
SQLITE: Final = """\
buffer:
  sqlite:
    path: "{folder}/buffer.db"
"""
NO_BUFFER: Final = """\
buffer:
  none: {}
"""


def missing() -> str | None:
    return None if program("connect") else "not built: python -m benches.edge.build_peers connect"


def peers() -> list[Peer]:
    version = "redpanda connect " + CONNECT.rpartition("@v")[2]
    on_disk = partial(_configure, SQLITE)
    in_memory = partial(_configure, NO_BUFFER)
    return [
        Peer("Connect, batches + SQLite", version, on_disk, "writes, synchronous off"),
        Peer("Connect, no buffer", version, in_memory, "no"),
    ]


def _configure(buffer: str, place: Place) -> Launch:
    config = CONFIG.format(
        buffer=buffer.replace("{folder}", str(place.folder)),
        broker_port=place.broker_port,
        collector_port=place.collector_port,
        filter=FILTER,
        site=SITE,
    )
    (place.folder / "connect.yaml").write_text(config)
    return Launch([str(program("connect")), "run", "connect.yaml"])
