"""Registries: artifacts of other machines, over the OCI distribution protocol.

fetch          a reference to a verified artifact in a layout: layout, cache, registry
publish        an artifact of a layout, with its signatures, to a registry
signing        signs an artifact in a layout or a registry
attach         signatures beside an artifact
copy           an artifact from one layout to another
cache          the artifacts that were fetched before, for machines without a network
client         `Registry`: manifests and tags of one repository
download       a blob to a layout, resumed where it was cut
upload         a blob of a layout to a registry
referrers      what refers to an artifact: the registry's list, or the fallback tag
http           requests: redirects, credentials, retries, limits

Everything that a registry sends is untrusted: sizes are limited, digests are checked, and
credentials are sent to the registry that they belong to and to no other host.
"""
