"""Event loops and threads: what flows, engines, clients and servers share.

background_loop   the loop on a thread of its own    connection_pool   HTTP connections per loop
sync_reader       reads an async stream by `for`     context_managers  `with` for what has `close`
require_asyncio   rejects other libraries' loops     process_exit      daemon threads at exit
"""
