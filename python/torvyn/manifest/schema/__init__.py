"""The schema of Torvyn.toml: its tables and keys, and what is generated from them."""
