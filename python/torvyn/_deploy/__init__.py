"""Deployments on a gateway, and how they are updated from afar.

A deployment is a folder of generations; a generation is an unpacked artifact that never changes.
Whatever is interrupted, by kill -9 or a full disk: afterwards a good generation is current.

deployment          one folder of generations, and the folder of all deployments
generation_state    which generation is current, and the rules by which that changes
settings            `deployment.json`, which people may edit
disk                staging, links and removal, complete or absent after a crash
integrity           the files of a generation, compared with its artifact
deployment_run      runs the current generation, exchanges it, observes it
generation_process  the process of a generation
exchange            what a generation changes, and how it takes the place of another
trial               whether a new generation is healthy
channel             signed documents that name the artifacts to run; rules without I/O
publication         what a channel publishes, and what to know before it is signed
trust               what a deployment accepts from its channel
source              where a channel comes from: a folder, a web server, a registry
update              follows a channel: fetch, verify, check, make current
report              what a device reports, and posting it
collector           the server that receives reports
failures            the errors of this package
"""
