"""Cluster: a Plan to groups of nodes that run on several machines.

placement   a Plan to the groups that a cluster runs, with their replicas and resources
run         runs a flow on a cluster, for programs
ray         the groups as actors of Ray
removal     removes what a flow has on the broker
kubernetes  a Placement to manifests for Kubernetes
local       a broker and Ray on one machine, for development

`nats` edges separate the groups; the broker carries their elements. The machines are the cluster's
business: nothing here schedules.
"""

from torvyn.cluster.placement import Group, PlacedEdge, Placement, place
from torvyn.cluster.run import run

__all__ = ["Group", "PlacedEdge", "Placement", "place", "run"]
