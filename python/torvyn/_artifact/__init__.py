"""Artifacts: a project or a component as an OCI artifact, and back.

A file of the project is one layer, with its path as the layer's title. Whatever is read from a
layout or a registry is untrusted: a blob is used only after its digest was checked, and a path only
after it was validated. Nothing here starts a flow.

oci                 descriptors, manifests, indexes; canonical JSON; errors
paths               the paths and the media types of files inside an artifact
layout              `Layout`: artifacts in a local folder
reference           `oci://host/name:tag` and `oci:folder:tag`
cache               the user's layout, with what was fetched
lock                `torvyn.lock`: the digests of what a project consists of
project_files       the files that a project needs
pack                a project to an artifact
sbom                what is in it
provenance          how it was made
precompiled         compiled code in an artifact
wheels              Python packages in an artifact
unpack              an artifact, ready to run
keys                keys in PEM files
signature           one signature of an artifact
trust               whether this machine trusts an artifact
registry            manifests, tags and referrers of one registry
registry_http       requests to it
registry_responses  its addresses and its answers
registry_login      its challenges, and logins for them
transfer            blobs down and up, resumed
fetch               a reference to a verified artifact
publish             an artifact to a registry, and its signatures
"""
