"""`opcua`: the values of an OPC UA server, as they change or at an interval.

By subscription, each change is an element with `name`, `value` and the time of the server. By
polling, each reading is an element with a field per node. Changes during an outage are not seen.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, ClassVar

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import JSON_TYPE, to_json_value, write_json
from torvyn.components.network.inbox import CAPACITY, Inbox
from torvyn.components.network.opcua_client import OpcUaClient
from torvyn.components.network.poll_schedule import TIME_FIELD, PollSchedule, utc_text
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="opcua",
    role="source",
    summary="Receives the values of an OPC UA server, as they change or at an interval.",
    options=(
        Option("url", "text", None, "The server, such as `opc.tcp://plc:4840`.", required=True),
        Option("nodes", "text table", {}, "Field name -> node id, such as `ns=2;s=Boiler.Temp`."),
        Option(
            "mode",
            "choice",
            "subscribe",
            "`subscribe` to changes, or `poll` all nodes together.",
            choices=("subscribe", "poll"),
        ),
        Option("interval", "duration", 1.0, "How often to poll, or how often changes are sent."),
        Option("user", "text", "", "The user name."),
        Option("password", "text", "", "The password."),
        Option(
            "security",
            "text",
            "",
            "Policy, mode, certificate and key, such as "
            "`Basic256Sha256,SignAndEncrypt,cert.pem,key.pem`.",
        ),
        Option("timeout", "duration", 4.0, "How long to wait for an answer."),
        TIME_FIELD,
        CAPACITY,
        ON_DISCONNECT,
    ),
    main="url",
    example="""\
[flow.main.nodes.plc]
component = "opcua"

[flow.main.nodes.plc.config]
url = "opc.tcp://192.168.1.30:4840"
nodes = { celsius = "ns=2;s=Boiler.Temp", pump = "ns=2;s=Boiler.Pump" }
""",
)


class OpcUa(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "readings"

    _client: OpcUaClient | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._nodes: dict[str, str] = options["nodes"]
        self._polls = options["mode"] == "poll"
        self._interval_s: float = options["interval"]
        self._time_field: str = options["time_field"]
        self._names: dict[Any, str] = {}
        self._inbox: Inbox[dict[str, Any]] = Inbox(options["capacity"], self.wake)
        self.dropped = 0
        """How many values were dropped, because the flow was too slow."""
        self.connection = Connection("opcua", options["url"].rpartition("@")[2])
        self._client = OpcUaClient(options, self.connection, self._serve, self.wake)
        self._client.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        if not options["nodes"] or not options["interval"]:
            name = "interval" if options["nodes"] else "nodes"
            raise wrong_config(SPEC, f"`{name}` is empty or 0", f"set `{name}`")

    def pull(self) -> Output | Pending:
        reading = self._inbox.take()
        if reading is not None:
            return Output(write_json(reading), content_type=JSON_TYPE)
        if self._client is not None and self._client.failure is not None:
            raise Unavailable(f"no connection to the OPC UA server: {self._client.failure}")
        return PENDING

    def teardown(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        client.stop()
        self.connection.close()
        left = self._inbox.close()
        if left or self.dropped:
            logger.warning(
                "`opcua`: %d values were received and not processed, %d dropped because the flow "
                "was too slow",
                left,
                self.dropped,
            )

    # On the loop

    async def _serve(self, client: Any) -> None:
        nodes = [client.get_node(text) for text in self._nodes.values()]
        self._names = dict(zip((node.nodeid for node in nodes), self._nodes, strict=True))
        if self._polls:
            await self._poll(client, nodes)
        else:
            await self._subscribe(client, nodes)

    async def _subscribe(self, client: Any, nodes: list[Any]) -> None:
        assert self._client is not None
        subscription = await client.create_subscription(self._interval_s * 1000, self)
        results = await subscription.subscribe_data_change(nodes)
        for name, result in zip(self._nodes, results, strict=True):
            if not isinstance(result, int):
                self._put({**self._time(), "name": name, "value": None, "status": result.name})
        self._client.established()
        await self._client.wait_for_loss(client)

    def datachange_notification(self, node: Any, value: Any, data: Any) -> None:
        """Called by the library for each change."""
        found = data.monitored_item.Value
        reading = {
            **self._time(found.SourceTimestamp or found.ServerTimestamp),
            "name": self._names[node.nodeid],
            "value": _json_value(value),
        }
        if not found.StatusCode.is_good():
            reading["status"] = found.StatusCode.name
        self._put(reading)

    async def _poll(self, client: Any, nodes: list[Any]) -> None:
        assert self._client is not None
        schedule = PollSchedule(self._interval_s)
        while True:
            values = await client.read_attributes(nodes)
            self._client.established()
            reading, errors = self._time(), {}
            for name, found in zip(self._nodes, values, strict=True):
                is_good = found.StatusCode.is_good()
                reading[name] = _json_value(found.Value.Value) if is_good else None
                if not is_good:
                    errors[name] = found.StatusCode.name
            self._put({**reading, "errors": errors} if errors else reading)
            schedule.next()
            await asyncio.sleep(schedule.wait_s())

    def _time(self, moment: datetime | None = None) -> dict[str, Any]:
        if not self._time_field:
            return {}
        if moment is None:
            return {self._time_field: utc_text()}
        unix_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return {self._time_field: utc_text(unix_s)}

    def _put(self, reading: dict[str, Any]) -> None:
        if self._inbox.is_full:
            self.dropped += 1
        else:
            self._inbox.put((reading,))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return to_json_value(value)
