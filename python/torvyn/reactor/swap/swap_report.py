"""What a swap did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["restored", "empty", "none"]


@dataclass(frozen=True, slots=True)
class SwapReport:
    """A component that was exchanged for another one."""

    node: str
    component: str
    """The new component."""
    pause_ms: float
    """For how long the node took no elements. They waited in its queue."""
    state: State
    """`restored` from the old component, `empty` because the old state was discarded, or `none`
    because the component has no state."""
    is_return: bool = False
    """The component of before took its place again, because the new one failed."""
    error: str = ""
    """Why it did."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
