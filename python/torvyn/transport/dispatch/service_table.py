"""The services of a server, by the names that clients use."""

from __future__ import annotations

from torvyn.engine.service.service import Service
from torvyn.transport.rejection import Rejection
from torvyn.transport.request_body import invalid


class ServiceTable(dict[str, Service]):
    def find(self, name: str | None) -> tuple[str, Service]:
        """The service of that name; without a name, the only one. Raises a rejection."""
        if name is None and len(self) == 1:
            return next(iter(self.items()))
        names = ", ".join(f"`{name}`" for name in self)
        if name is None:
            raise invalid("the request does not name a flow", f"the flows are {names}")
        if name not in self:
            message = f"no flow is named {name[:100]!r}"
            raise Rejection(404, "transport.flow-unknown", message, hint=f"the flows are {names}")
        return name, self[name]
