"""Flows that run for months: who watches them, and what they report.

supervisor       tells systemd that a flow is ready, works or stops
unix_server      a socket that only the user of the process can reach
status_socket    answers `torvyn top` while a flow runs
control_socket   takes the requests of `torvyn reload` and `torvyn deploy run`
reloader         links a flow anew and swaps what has changed
exchanger        brings the flow of a deployment to another generation
running_flows    finds the flows that run on this machine
top_table        the table of `torvyn top`
unit             the unit file of a flow
unit_options     the options of `torvyn service install`
systemctl        the commands of systemd
service_status   the state of a service
journal          the log of a service
"""
