"""Flows on Ray: one actor for each replica of each group.

session            a run with what it needs: the cluster, the broker, the output
connection         the Ray cluster: found or started, and what the actors ask it for
flow_run           starts the groups, waits for their ends
group_replica      one replica, as the command sees it
group_actor        one replica, in its own process
run_broker         a broker for a run that was given none
run_record         which run is under way, and what is discarded before it
job                what a replica is told, and what it reports back
project_copy       the files of the project on the machines of a cluster
output_relay       what groups print, to the command
forwarded_output   the standard streams of a group's process
failures           the errors of this package
merged_statistics  the statistics of all groups as those of one flow

Ray places the processes and starts them again. It carries no elements. A process that was started
again continues from its last commit without a word of the command.
"""
