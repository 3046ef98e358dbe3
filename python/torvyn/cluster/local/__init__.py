"""A cluster on one machine, for development: `torvyn cluster up`, `status` and `down`.

lifecycle      starts what does not run, stops what was started
options        what `up` is asked for
broker         nats-server with JetStream, as a process of its own
ray_head       a Ray cluster of one node, as processes of their own
background     starting a process that outlives the command
ports          ports of the loopback interface
status         what runs, and how much it uses
broker_report  what a broker stores
ray_report     the nodes of a Ray cluster, and what is free there

Everything listens on the loopback interface and requires a token: other users of the machine, and
web pages in a browser, can connect to its ports too. `torvyn._io.local_cluster` has the state
file, so that any package can ask what runs.

    address          the URL of the broker that runs, or None
    running_cluster  the parts that run
"""

from torvyn._io.local_cluster import address, running_cluster

__all__ = ["address", "running_cluster"]
