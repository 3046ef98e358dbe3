"""Event loops, threads, and what crosses between them.

background_loop   an event loop on a daemon thread, one per process
sync_reader       reads an async stream of another thread's loop, with `for` or by polling
run_apart         runs a coroutine on an event loop and a thread of its own, and waits
per_loop          something that each event loop has its own of
connection_pool   HTTP connections of aiohttp, one pool per loop
turns             turns on a loop, for tasks that always have more to do
earliest_timer    one timer of a loop for many deadlines
begin_wait        begins an await, and returns the rest of it if there is any
end_task          cancels a task until it has ended
context_managers  `with` and `async with` for objects that have `close`
require_asyncio   rejects event loops that are not asyncio's
process_exit      the end of the process, as daemon threads see it
signals           handlers for SIGINT and SIGTERM
cpu_time          the CPU time of a thread or a task
line_output       whole lines on standard output, whatever prints beside them
switch_interval   how soon a waiting thread gets the interpreter
"""
