"""Channels: a signed document names the artifacts that deployments are to run. Rules without I/O.

The rules are a subset of TUF's, in one document: versions only rise, one document names all
digests, its signatures reach a threshold of keys, and the keys change only by a statement that the
old and the new ones have signed.

document      the document: version, dates, artifacts, rollout
publication   a document with its signatures, and all changes of keys before it; as bytes
trust         what a deployment has accepted so far, and whether it accepts the next document
release_date  when this version of torvyn was released
signing       writes documents and changes of keys
next_version  what is wrong with a document that follows another
fields        fields of JSON objects, checked
requirement   which versions of torvyn an artifact runs on
"""

from torvyn.edge.channel.document import ArtifactEntry, ChannelDocument, Rollout
from torvyn.edge.channel.publication import Publication
from torvyn.edge.channel.trust import ChannelTrust, accept

__all__ = [
    "ArtifactEntry",
    "ChannelDocument",
    "ChannelTrust",
    "Publication",
    "Rollout",
    "accept",
]
