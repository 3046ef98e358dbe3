"""What the commands share that fetch, publish, sign and verify artifacts.

access    the options of registries, and the trust that applies
progress  a line on a terminal while bytes are transferred
"""
