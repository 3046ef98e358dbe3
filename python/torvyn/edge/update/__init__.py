"""Remote updates: a deployment follows a channel.

An update is a series of steps, each of which may be cut at any byte or by kill -9: fetch the
publication, accept it, fetch the artifact, verify and unpack it, check it, make it current.
`torvyn.edge.running` does the rest: it exchanges and observes the generation.

updater          `Updater`: one look at the channel, and what follows from it
follow_loop      looks again and again, with jitter
source           where publications and artifacts come from: a folder, a web server, a registry
web_source       a web server, without a registry: files next to each other
registry_source  a repository of a registry
download         an artifact within its limits; what an earlier generation has is not fetched again
"""

from torvyn.edge.update.updater import Updater, UpdateResult

__all__ = ["UpdateResult", "Updater"]
