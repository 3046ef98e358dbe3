"""The generations of a deployment on disk.

    NAME/deployment.json   how it runs and what it follows; people may edit it
    NAME/state.json        which generation is current; its rename is the only commit
    NAME/state.copy.json   read if the state is damaged
    NAME/current           a link to the current generation, `previous` one to its fallback
    NAME/generations/N/    `project/`, the unpacked artifact, its manifest and `generation.json`
    NAME/data/             stored elements and checkpoints, shared by all generations
    NAME/staging/          what is not finished; swept by the next command

The links follow `state.json`, for people and scripts: torvyn itself reads only the state.

disk          writes that are complete or absent after a crash
records       what is known about a generation
state         the state and its rules, without I/O
integrity     the files of a generation are those of its artifact
settings      how a deployment runs and what it follows
deployment    `Deployment`: one folder
machine_root  the folder of all deployments of a machine
"""

from torvyn.edge.generations.deployment import Deployment
from torvyn.edge.generations.disk import Disk
from torvyn.edge.generations.machine_root import (
    default_root,
    deployments,
    find_deployment,
    open_deployment,
)
from torvyn.edge.generations.records import GenerationRecord
from torvyn.edge.generations.state import DeploymentState

__all__ = [
    "Deployment",
    "DeploymentState",
    "Disk",
    "GenerationRecord",
    "default_root",
    "deployments",
    "find_deployment",
    "open_deployment",
]
