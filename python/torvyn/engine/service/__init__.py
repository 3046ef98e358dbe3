"""Flows that answer requests.

service     a flow as a service
flow_parts  the parts of such a flow: `[request -> guards ->] engine -> guards -> response`
"""
