"""Link: a flow's record to a Plan, with every name resolved and nothing started.

project_linker     a manifest to Plans, with all problems at once
overrides          `--config`, `--input` and `--output`: changes to a flow before it is linked
flow_linker        a flow to a Plan
node_linker        one node: component, role, ports, run mode, key
component_library  names to component classes
private_imports    each component folder is a package of its own
artifacts          what needs artifacts: components of registries, torvyn.lock, packed files
component_traits   what link reads from a component without starting it
grants             a guest's capabilities: requested and granted
error_policy       `on_error` to an ErrorPolicy, and to the edges of dead letters
key_reader         the key of a Plan as a function, for whoever runs the node
defaults           defaults from the settings
graph              the rules of names and roles
plan_checks        the rules for a flow as a whole
plan               the Plan, its segments, and its text
picture            the Plan as a picture: SVG, Mermaid, DOT
"""
