"""The files that `torvyn init` writes."""
