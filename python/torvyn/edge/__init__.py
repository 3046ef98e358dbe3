"""Edge: deployments on a gateway, and how they are updated from afar.

A deployment is a folder of generations; a generation is an unpacked artifact that never changes.
Whatever is interrupted, by kill -9 or a full disk: afterwards a good generation is current.

generations      the folder of a deployment: add, activate, roll back, collect garbage
running          runs the current generation, exchanges it, observes it
channel          signed documents that name the artifacts to run; rules without I/O
update           follows a channel: fetch, verify, check, make current
reporting        reports of deployments, and who collects them
artifact_source  adds an artifact to a deployment
failures         the errors of this package
"""
