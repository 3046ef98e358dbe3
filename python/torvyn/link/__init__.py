"""Link: a flow's record to a Plan, with every name resolved and nothing started.

project_linker       a manifest to Plans, with all problems at once
overrides            `--config`, `--input` and `--output`: changes to a flow before it is linked
flow_linker          a flow to a Plan
node_linker          one node: component, role, ports, run mode
component_loader     names to component classes
artifact_components  components of registries: an artifact to its `.wasm` file
component_traits     what link reads from a component without starting it
private_imports      each component folder is a package of its own
option_values        checks values against the schema
error_policy         `on_error` to an ErrorPolicy
segments             the parts of a flow that only durable edges connect
dead_letters         the edges and sinks of dead letters
defaults             defaults from the settings
checks               the rules that a flow is checked against
plan                 the Plan
render               the Plan as text
picture              the Plan as a picture: SVG, Mermaid, DOT
"""
