"""The floor: paho-mqtt, SQLite and http.client by hand, without a runtime.

    python -m benches.edge.peers.paho_sqlite BROKER_PORT COLLECTOR_PORT

One thread runs the MQTT client, maps and collects; one commits what waits (WAL, FULL) and then
acknowledges it in order; one sends pages of rows and deletes them after the answer.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benches.edge.gateway_process import Launch, Peer, Place
from benches.edge.readings import FILTER, SITE
from benches.peers import distribution_version
from benches.server_process import module

PAGE = 1000
GROUP_S = 0.005
RETRY_S = 0.2


def missing() -> str | None:
    return None if importlib.util.find_spec("paho") else 'pip install "paho-mqtt>=2.2"'


def peers() -> list[Peer]:
    version = f"paho-mqtt {distribution_version('paho-mqtt')}"
    return [Peer("paho + SQLite by hand", version, _configure, "yes, fsync")]


def _configure(place: Place) -> Launch:
    command = module(__name__, str(place.broker_port), str(place.collector_port))
    return Launch(command, {"PYTHONPATH": str(Path(__file__).parents[3])})


class Gateway:
    def __init__(self, collector_port: int) -> None:
        self._waiting: list[tuple[int, bytes]] = []
        self._arrived = threading.Event()
        self._stored = threading.Event()
        self._port = collector_port
        database = _open()
        database.execute("CREATE TABLE IF NOT EXISTS q (seq INTEGER PRIMARY KEY, body BLOB)")
        database.close()

    def on_message(self, client: Any, _: Any, message: Any) -> None:
        record = json.loads(message.payload)
        record["celsius"] = record.pop("value")
        record["site"] = SITE
        self._waiting.append((message.mid, json.dumps(record).encode()))
        self._arrived.set()

    def commit_forever(self, client: Any) -> None:
        database = _open()
        while True:
            self._arrived.wait()
            self._arrived.clear()
            time.sleep(GROUP_S)
            count = len(self._waiting)
            group, self._waiting[:count] = self._waiting[:count], []
            rows = ((body,) for _, body in group)
            database.execute("BEGIN")
            database.executemany("INSERT INTO q (body) VALUES (?)", rows)
            database.execute("COMMIT")
            for mid, _ in group:
                client.ack(mid, 1)
            self._stored.set()

    def send_forever(self) -> None:
        database = _open()
        while True:
            page = database.execute(f"SELECT seq, body FROM q ORDER BY seq LIMIT {PAGE}").fetchall()
            if not page:
                self._stored.wait()
                self._stored.clear()
                continue
            self._send(b"[" + b",".join(body for _, body in page) + b"]")
            database.execute("DELETE FROM q WHERE seq <= ?", (page[-1][0],))

    def _send(self, body: bytes) -> None:
        """Until the collector has it."""
        while True:
            try:
                self._connection.request("POST", "/readings", body)
                answer = self._connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return
            except (OSError, http.client.HTTPException):
                self._connection.close()
            time.sleep(RETRY_S)

    def run(self, broker_port: int) -> None:
        import paho.mqtt.client as mqtt
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        self._connection = http.client.HTTPConnection("127.0.0.1", self._port)
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, "by-hand", protocol=mqtt.MQTTv5, manual_ack=True
        )
        client.on_message = self.on_message
        client.on_connect = lambda client, *_: client.subscribe(FILTER, qos=1)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        properties.ReceiveMaximum = 10_000
        threading.Thread(target=self.send_forever, daemon=True).start()
        threading.Thread(target=self.commit_forever, args=(client,), daemon=True).start()
        client.connect("127.0.0.1", broker_port, clean_start=False, properties=properties)
        client.loop_forever()


def _open() -> sqlite3.Connection:
    database = sqlite3.connect("buffer.db", isolation_level=None, timeout=30)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    return database


if __name__ == "__main__":
    Gateway(int(sys.argv[2])).run(int(sys.argv[1]))
