"""Manifest: the text of Torvyn.toml to records that know their file, line and column.

parse             text to Manifest, with all problems at once
toml_tree         TOML to a tree with positions
values            one value of the file to a Python value
variables         `${VAR}` in strings
units             sizes and durations: `64MiB`, `100us`
records           the records
problems          collects problems
render            Manifest to text
schema            the tables and keys
settings          flags > environment > file > user file > default
process_settings  the settings of a process

Whether a component exists and the graph makes sense is link's business.
"""
