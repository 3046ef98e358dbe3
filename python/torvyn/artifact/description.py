"""What an artifact is and has in it, as data. Its layers are not read."""

from __future__ import annotations

from typing import Any

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Descriptor


def describe_artifact(layout: Layout, descriptor: Descriptor) -> dict[str, Any]:
    manifest = layout.manifest(descriptor)
    files = manifest.files()
    return {
        "digest": descriptor.digest,
        "artifact_type": manifest.artifact_type,
        "size_bytes": sum(blob.size for blob in manifest.blobs),
        "annotations": dict(sorted(manifest.annotations.items())),
        "files": [
            {
                "path": path,
                "size_bytes": layer.size,
                "media_type": layer.media_type,
                "digest": layer.digest,
            }
            for path, layer in sorted(files.items())
        ],
        "referrers": [
            {"digest": each.digest, "artifact_type": each.artifact_type}
            for each in layout.referrers(descriptor.digest)
        ],
    }
