"""Signatures: who vouches for an artifact, and whether this machine trusts them.

keys           Ed25519 and ECDSA P-256 keys in PEM files
dsse           envelopes: a payload with signatures over it
statement      the signed text: the digest of an artifact, and how long the signature is valid
bundle         one signature of an artifact as a file, as cosign writes and reads it
policy         which keys this machine trusts for which sources: `trust.toml`
verification   compares the bundles of an artifact with a rule of the policy
base64_text    base64 in one form only

Nothing here does network I/O. The algorithm is always that of the trusted key, never one that the
signed data names.
"""
