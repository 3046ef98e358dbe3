"""The rules that a flow is checked against when it is linked."""
