"""Artifacts: a project or a component as an OCI artifact, and back.

A file of the project is one layer, with its path as the layer's title. Whatever is read from a
layout or a registry is untrusted: a blob is used only after its digest was checked, and a path only
after it was validated. Nothing here starts a flow.

model        descriptors, image manifests, indexes; the limits on what is read
paths        the paths of files inside an artifact
json_form    canonical JSON, and JSON from outside
blob_files   files on disk: checked when they are read, complete when they are written
layout       `Layout`: artifacts in a local folder
reference    `oci://host/name:tag` and `oci:folder:tag`
lock         `torvyn.lock`: the digests of what a project consists of
media_types  the type of each file
packing      a project to an artifact
prepare      an artifact to a folder that can be run
description  an artifact as data, for people
precompiled  compiled code in an artifact
wheels       Python packages in an artifact
unpack       an artifact to a folder
registry     artifacts of other machines
signature    who vouches for an artifact, and whether this machine trusts them
failures     the errors of this package
"""
