"""The schema of Torvyn.toml, and what is generated from it.

tables           the tables and keys
settings_tables  the tables whose keys are settings
keys             the types that a schema is written in
json_schema      the JSON Schema, for editors
reference        the reference page
"""
