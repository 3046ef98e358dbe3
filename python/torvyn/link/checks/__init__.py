"""The rules that a flow is checked against when it is linked.

topology      the graph has no cycles, and every node is on a path from a source to a sink
router_ports  every port of a router has an edge or is ignored explicitly
requests      one `request` leads to one engine
signatures    a component's methods fit its role
config_kind   a config is text or a table, as its component takes
carriers      what carries the edges of a flow
segments      the segments that run in this process
priorities    the priorities of the flows differ, so that they have an effect
budgets       the limits of a flow as a whole
places        replicas and resources on a cluster
keys          a component with a `key` can have one instance per key
memory        the budgets of a flow fit into the memory of its process
locks         components match torvyn.lock
grants        a guest's capabilities are granted
"""
