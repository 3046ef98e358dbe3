"""eKuiper with its sink cache on disk and a persistent MQTT session. The map is a rule in SQL.

It is configured over its REST interface after the first start; a restarted one knows its rules.
"""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from functools import partial
from typing import Any, Final

from benches.edge.build_peers import EKUIPER, FOLDER, program
from benches.edge.gateway_process import READY_S, Launch, Peer, Place
from benches.edge.readings import FILTER, SITE
from benches.server_process import free_port

KUIPER_YAML: Final = """\
basic:
  logLevel: error
  debug: false
  consoleLog: true
  fileLog: false
  ip: 127.0.0.1
  port: {cli_port}
  restIp: 127.0.0.1
  restPort: {rest_port}
  prometheus: false
  pprof: false
  enablePrivateNet: true
rule:
  qos: 0
sink:
  enableCache: true
  memoryCacheThreshold: 1024
  maxDiskCache: 1024000
  bufferPageSize: 256
  resendInterval: 0
store:
  type: sqlite
"""
MQTT_YAML: Final = """\
default:
  qos: 1
  server: "tcp://127.0.0.1:{broker_port}"
  clientid: ekuiper
  protocolVersion: "3.1.1"
  enableClientSession: true
"""
STREAM: Final = (
    "CREATE STREAM readings () WITH "
    f'(DATASOURCE="{FILTER}", FORMAT="json", TYPE="mqtt", CONF_KEY="default")'
)
RULE_SQL: Final = f"SELECT seq, t, sensor, value AS celsius, '{SITE}' AS site FROM readings"


def missing() -> str | None:
    return None if program("ekuiper") else "not built: python -m benches.edge.build_peers ekuiper"


def peers() -> list[Peer]:
    version = "ekuiper " + EKUIPER.rpartition("@v")[2]
    return [Peer("eKuiper, cache on", version, _configure, "only what reached its cache")]


def _configure(place: Place) -> Launch:
    rest_port = free_port()
    shutil.copytree(FOLDER / "ekuiper" / "etc", place.folder / "etc", dirs_exist_ok=True)
    for name in ("data", "log", "plugins/portable"):
        (place.folder / name).mkdir(parents=True, exist_ok=True)
    main = KUIPER_YAML.format(cli_port=free_port(), rest_port=rest_port)
    (place.folder / "etc" / "kuiper.yaml").write_text(main)
    source = MQTT_YAML.format(broker_port=place.broker_port)
    (place.folder / "etc" / "mqtt_source.yaml").write_text(source)
    command = [str(program("ekuiper")), "-loadFileType", "relative"]
    add_rule = partial(_add_rule, rest_port, place.collector_port)
    return Launch(command, {"KuiperBaseKey": str(place.folder)}, add_rule)


def _add_rule(rest_port: int, collector_port: int) -> None:
    _post(rest_port, "streams", {"sql": STREAM})
    sink = {
        "url": f"http://127.0.0.1:{collector_port}/readings",
        "method": "post",
        "bodyType": "json",
        "sendSingle": False,
        "batchSize": 200,
        "lingerInterval": "5ms",
        "enableCache": True,
    }
    # With buffers of the default size it drops readings of a burst.
    options = {"bufferLength": 100_000}
    rule = {"id": "gateway", "sql": RULE_SQL, "actions": [{"rest": sink}], "options": options}
    _post(rest_port, "rules", rule)


def _post(port: int, path: str, body: dict[str, Any]) -> None:
    """Waits for the server, which has only been started."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    until = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except urllib.error.HTTPError as refusal:
            raise RuntimeError(f"eKuiper refuses {path}: {refusal.read()!r}") from None
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
