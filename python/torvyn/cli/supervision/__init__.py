"""Flows that run for months: who watches them, and what they report.

supervisor      tells systemd that a flow is ready, works or stops
unit            the unit file of a flow
unit_options    the options of `torvyn service install`
systemctl       the commands of systemd
service_status  the state of a service
journal         the log of a service
"""
