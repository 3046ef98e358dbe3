"""What runs beside the generation of a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.edge.running import DeploymentRun


@contextmanager
def companions(
    deployment: Deployment, settings: DeploymentSettings, run: DeploymentRun
) -> Iterator[None]:
    yield
