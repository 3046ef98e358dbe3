"""Hot swap: a component of a running flow is exchanged between two elements.

swapper          the procedure: prepare, exchange, watch, tear down
node_swap        the swap of one node: hold, move the state, exchange
handover         moves the state outside the turns, within the time of the swap
trial            watches the new component, and brings the last good one back
candidate        the new component, from its creation to its `init`
exclusive_swap   the swap of what only one instance can have
warm_stages      old components that stay ready
swap_order       one exchange, as the native core carries it out
swap_report      what a swap did
state_transfer   what becomes of the state of the old component
plan_difference  what changed between two plans
new_node         the plan of the new component, and whether it fits into the node
refusals         why a swap was not possible

Queues, sequence numbers, acknowledgements and counters belong to the node and stay as they are.
"""
