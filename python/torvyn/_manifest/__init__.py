"""Manifest: the text of Torvyn.toml to records that know their file, line and column.

parse            text to Manifest, with all problems at once
toml_tree        TOML to a tree with positions
reader           one value of the file to a Python value, with its `${VAR}`
schema           keys and tables, and the check of a value
records          the tables: project, component, flow, node, edge, pack
setting_records  the tables whose keys are settings
problems         collects problems
settings         flags > environment > file > user file > default
render           Manifest to text
json_schema      the JSON Schema, for editors

Whether a component exists and the graph makes sense is link's business.
"""
