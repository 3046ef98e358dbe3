"""Manifest: the text of Torvyn.toml to records that know their file, line and column.

parse            text to Manifest, with all problems at once
toml_tree        TOML to a tree with positions
reader           tables of the tree to records, with the `${VAR}` of their values
schema           keys, tables and records, and the check of a value
records          project, component, flow, node, edge, pack; a field carries its key
setting_records  the records of settings: a new setting is a field here
problems         collects problems
settings         flags > environment > file > user file > default
render           Manifest to text
json_schema      the JSON Schema, for editors

Whether a component exists and the graph makes sense is link's business.
"""
