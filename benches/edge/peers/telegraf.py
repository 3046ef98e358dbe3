"""Telegraf with `disk_write_through`: a buffer on disk, and messages acknowledged once it has them.

The map is a Starlark processor. A batch is sent when 1,000 readings wait, or after 10 ms.
"""

from __future__ import annotations

from typing import Final

from benches.edge.build_peers import TELEGRAF, program
from benches.edge.gateway_process import Launch, Peer, Place
from benches.edge.readings import FILTER, SITE

CONFIG: Final = """\
[agent]
  omit_hostname = true
  quiet = true
  flush_interval = "10ms"
  metric_batch_size = 1000
  metric_buffer_limit = 1000000
  buffer_strategy = "disk_write_through"
  buffer_directory = "{folder}/buffer"
  skip_processors_after_aggregators = true
[[inputs.mqtt_consumer]]
  servers = ["tcp://127.0.0.1:{broker_port}"]
  topics = ["{filter}"]
  topic_tag = ""
  qos = 1
  persistent_session = true
  client_id = "telegraf"
  max_undelivered_messages = 10000
  data_format = "json"
  json_string_fields = ["sensor"]
[[processors.starlark]]
  source = '''
def apply(metric):
    metric.fields["celsius"] = metric.fields.pop("value")
    metric.fields["site"] = "{site}"
    return metric
'''
[[outputs.http]]
  url = "http://127.0.0.1:{collector_port}/readings"
  data_format = "json"
"""


def missing() -> str | None:
    return None if program("telegraf") else "not built: python -m benches.edge.build_peers telegraf"


def peers() -> list[Peer]:
    version = TELEGRAF.rpartition("/")[2].replace("@v", " ")
    return [Peer("Telegraf, disk_write_through", version, _configure, "yes, fsync")]


def _configure(place: Place) -> Launch:
    (place.folder / "buffer").mkdir(exist_ok=True)
    config = CONFIG.format(
        folder=place.folder,
        broker_port=place.broker_port,
        collector_port=place.collector_port,
        filter=FILTER,
        site=SITE,
    )
    (place.folder / "telegraf.conf").write_text(config)
    return Launch([str(program("telegraf")), "--config", "telegraf.conf"])
