"""A real OPC UA server of asyncua for tests, on a thread of its own."""

import asyncio
import threading

from asyncua import Server, ua

PATIENCE_S = 20.0


class OpcUaServer:
    """Has the variables `ns=2;s=celsius` (21.5) and `ns=2;s=pump` (true)."""

    def __init__(self, port):
        self.url = f"opc.tcp://127.0.0.1:{port}/"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self):
        self._run(self._start())

    def stop(self):
        if self._thread is not None:
            self._run(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            self._thread = None

    def write(self, name, value):
        self._run(self._server.get_node(f"ns=2;s={name}").write_value(value))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    async def _stop(self):
        await self._server.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _start(self):
        self._server = server = Server()
        await server.init()
        server.set_endpoint(self.url)
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        space = await server.register_namespace("urn:torvyn:test")
        for name, value in (("celsius", 21.5), ("pump", True)):
            node = ua.NodeId(name, space)
            await server.nodes.objects.add_variable(node, name, value)
        await server.start()
