"""Frames of a streamed answer and the dialects in which they travel: data and bytes, no I/O."""
