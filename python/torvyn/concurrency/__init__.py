"""Event loops and what crosses them: shared by flows, engines and clients.

background   the loop on a thread of its own       handover   from a loop to a reader elsewhere
connections  HTTP connections, a pool for a loop   closing    what is used in a `with` block
asyncio_only refuses the loops of other libraries  process_exit what daemon threads get at the end
reading      a loop's items, read by `for`
"""
