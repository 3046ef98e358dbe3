"""A Plan becomes a running Flow.

flow              the flow in a program: build, run, iterate, feed, swap
project           a project on disk, opened
execution         one run of a Plan, from its start to its end
lifecycle         initializes all components of a run, and tears them down
lifecycle_driver  how `init` and `teardown` wait: on a thread or a loop
async_driver      the same on a loop
runner            how a component is called, inline or as a guest
offloaded_runner  what runners outside the turns share
thread_runner     on a thread
async_runner      on an event loop
edge_account      the statistics of durable edges, as their author sees them
nats_account      those of edges that a NATS server carries
stepped_runner    step by step, in a simulator
executors         the stages outside the turns: by element, batch, stream, source
lockstep          a sync generator function as an async one
event_loop        drives flows on an event loop, and wakes loops
threads           workers, watchdog, spare threads
limits            the time limits of a run
stuck_calls       which call blocks a thread
cpu_throttle      the share of the CPU of a node
cpu_time          the CPU time of a thread or a task
statistics        the statistics of a flow, and native counters
run_statistics    the statistics and the trace of one run
trace             the calls of nodes outside the turns
failures          native failures to exceptions
refused_elements  stores what nodes refuse for good
health            whether a running flow works: it moves, or has a reason not to
checks            what a flow must fit before it runs
swap_checks       what a new component must fit, and its state
swap              the exchange of a component between two elements
swap_order        what the native core does in an exchange, and what a swap did
trial             a new component on trial, and the way back
plan_difference   what changed between two plans
stepper           drives a flow by hand, for tests
reload            brings a running flow up to date with its files

A flow is driven by its caller or, once started, by worker threads.
"""
