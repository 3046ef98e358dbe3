"""How often and how long a client retries. If the server names a delay, it waits at least that
long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torvyn._io.backoff import Retries
from torvyn.errors import TorvynError

FIRST_RETRY_DELAY_S: Final = 0.25
FIRST_RESUME_DELAY_S: Final = 0.05
"""Short, because a person may be reading the answer."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries are for requests that have not been answered, resumes for stateful streams."""

    retries: int = 3
    retry_for_s: float = 30.0
    resumes: int = 20
    resume_for_s: float = 120.0
    on_reconnect: Callable[[int, TorvynError], None] | None = None

    def of_requests(self) -> Retries:
        return Retries(self.retries, self.retry_for_s, FIRST_RETRY_DELAY_S)

    def of_streams(self) -> Retries:
        return Retries(self.resumes, self.resume_for_s, FIRST_RESUME_DELAY_S)
