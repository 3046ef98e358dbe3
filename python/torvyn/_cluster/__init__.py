"""Cluster: a Plan to groups of nodes that run on several machines.

placement          a Plan to the groups that a cluster runs, with their replicas and resources
session            a run on Ray, for programs and for the command
flow_run           its groups and their replicas: starts, watches, ends them
group_actor        the process of a replica
job                what that process is told, and what it reports back
ray_cluster        the Ray cluster of a run
output             what groups print
project_copy       the files of a project on the machines of a cluster
merged_statistics  the statistics of all groups as those of one flow
broker             a NATS server on this machine
local_cluster      a broker and Ray on one machine, for development
broker_report      what a broker stores
ray_report         the nodes of a Ray cluster
removal            removes what a flow has on the broker
failures           the errors of flows on Ray
kubernetes         a Placement to manifests for Kubernetes

`nats` edges separate the groups; the broker carries their elements. The machines are the cluster's
business: nothing here schedules.
"""
