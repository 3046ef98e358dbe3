"""The child that compiles: `python -m torvyn.sandbox.child SECONDS BYTES FUEL`.

Wasm comes from stdin, compiled code goes to stdout. Exit 2 and a line `kind message` say that the
wasm is no component; any other exit, that it took more than it may.
"""

from __future__ import annotations

import resource
import sys

from torvyn._native import CompiledComponent, SandboxError


def main(arguments: list[str]) -> int:
    time_s, memory_bytes, counts_fuel = arguments
    # Past the first the kernel says why it ends the process, past the second it does not ask.
    resource.setrlimit(resource.RLIMIT_CPU, (int(time_s), int(time_s) + 1))
    # Memory that is written to. Threads reserve far more address space than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        code = CompiledComponent.precompile(sys.stdin.buffer.read(), counts_fuel == "1")
    except SandboxError as error:
        kind, message = error.args
        print(kind, " ".join(message.split()), file=sys.stderr)
        return 2
    sys.stdout.buffer.write(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
