"""A real Modbus/TCP server of pymodbus for tests, on a thread of its own."""

import asyncio
import threading

from pymodbus import FramerType
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

PATIENCE_S = 20.0


class ModbusServer:
    """Coils 0-15 (1 and 3 are on), discrete inputs 0-15, holding registers 0-29 and input
    registers 0-9, where 5 is missing."""

    def __init__(self, port, framer=FramerType.SOCKET):
        self.port = port
        self._framer = framer
        self._loop = asyncio.new_event_loop()
        self._thread = None

    def start(self):
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE_S)

    def stop(self):
        if self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._server.shutdown(), self._loop).result(PATIENCE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            self._thread = None

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        started.set()
        self._loop.run_forever()

    async def _serve(self):
        words = DataType.REGISTERS
        coils = [SimData(0, values=[n in (1, 3) for n in range(16)], datatype=DataType.BITS)]
        discrete = [SimData(0, values=[n == 2 for n in range(16)], datatype=DataType.BITS)]
        holding = [SimData(0, values=[0] * 30, datatype=words)]
        inputs = [
            SimData(0, values=[213, 0xFFFF, 0, 1, 2], datatype=words),
            SimData(6, values=[0x4129, 0x999A, 0x6869, 0x2100], datatype=words),
        ]
        device = SimDevice(1, simdata=(coils, discrete, holding, inputs))
        self._server = ModbusTcpServer(
            device, framer=self._framer, address=("127.0.0.1", self.port)
        )
        await self._server.serve_forever(background=True)
