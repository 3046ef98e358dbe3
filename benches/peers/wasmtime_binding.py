"""The PyPI `wasmtime` binding making the same call: a filter guest that reads its payload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

BUFFER, CONTEXT = 1, 2


def filter_call(wasm: Path, payload: bytes) -> Callable[[], bool]:
    """A callable that judges the payload once; the host answers `read-all` and nothing else."""
    import wasmtime
    from wasmtime import component

    def read_all(context: Any, this: Any) -> bytes:
        this.drop(context)
        return payload

    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    linker = component.Linker(engine)
    with linker.root() as root, root.add_instance("torvyn:streaming/types@0.1.0") as types:
        types.add_resource("buffer", component.ResourceType.host(BUFFER), lambda *_: None)
        types.add_resource("flow-context", component.ResourceType.host(CONTEXT), lambda *_: None)
        types.add_func("[method]buffer.read-all", read_all)
    guest = linker.instantiate(store, component.Component(engine, wasm.read_bytes()))
    interface = guest.get_export_index(store, "torvyn:filtering/filter@0.1.0")
    evaluate = guest.get_func(store, guest.get_export_index(store, "evaluate", interface))
    meta = _record(sequence=7, timestamp_ns=1, content_type="text/plain; charset=utf-8")

    def call() -> bool:
        lent = component.ResourceHost.borrow(1, BUFFER)
        around = component.ResourceHost.borrow(2, CONTEXT)
        answer = evaluate(store, _record(meta=meta, payload=lent, context=around))
        evaluate.post_return(store)
        return bool(getattr(answer, "payload", answer))

    return call


def _record(**fields: Any) -> Any:
    """A record as the binding takes it: attributes with the names of the contract."""
    from wasmtime import component

    made = component.Record()
    for name, value in fields.items():
        setattr(made, name.replace("_", "-"), value)
    return made
