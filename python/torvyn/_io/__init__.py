"""One of each: what the package uses of the machine, of the network and of event loops.

files            locks, files and folders that are whole after a crash
backoff          delays between tries, and what a server asks for
background_loop  work on a loop that the caller does not run
event_loop       what asyncio lacks
other_loops      event loops of other libraries, on which nothing of ours runs
per_loop         what each event loop has its own of
turns            turns on a loop, for tasks that always have more to do
start_wait       how long the start of a flow waits for a disk or a broker
connection       the state of a component's connection
restart          loops that do not end before they are told to
nats             the connection to a NATS server
jetstream        streams, messages and entries that a NATS server stores
closing          `with` and `async with` for objects that have `close`
http_client      HTTP connections of aiohttp, one pool per loop
process          signals, handlers of faults and the switch interval of this process
process_record   processes that outlive the command that started them
supervision      what a process tells its supervisor: systemd, or the parent that started it
resources        the memory, the CPUs and the open files that the process may use
safe_text        text that is safe to show: no control characters, no secrets
audit_log        one JSON object per line, to stdout or to a private file
line_output      whole lines on standard output, whatever prints beside them
packages         imports of packages that only some users need
native_parts     the parts of the native module that this build has
local_cluster    the broker and the Ray cluster that `torvyn cluster up` runs
broker_login     who the flows of a project are at their broker
"""
