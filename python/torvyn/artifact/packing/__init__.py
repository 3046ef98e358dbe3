"""Packing: a project on disk to an artifact in a layout.

The same files give the same bytes, wherever they are and whenever they are packed.

pack             `pack`: the artifact, with its lock file, SBOM and provenance
project_files    the files that a project needs
component_files  the files of one component
data_files       the files that the configs of nodes name
lock_check       whether a pack may change torvyn.lock
environment      variables that are set only on the gateway
sbom             the list of what is in the artifact, as CycloneDX
provenance       how the artifact was made, as an in-toto statement
"""
