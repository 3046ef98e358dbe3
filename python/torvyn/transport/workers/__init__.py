"""Several processes that share a port: `torvyn serve --workers N`.

share           what one of N workers gets of a limit, and what it cannot do
parent_process  starts workers, restarts those that end, forwards signals
worker_process  one worker, as its parent sees it
status_channel  what a worker tells its parent, in systemd's protocol
worker_signals  what a worker does when its parent is gone
"""
