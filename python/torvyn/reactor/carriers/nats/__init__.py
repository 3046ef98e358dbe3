"""Edges that a NATS server carries: segments of a flow in several processes.

names           what a flow and its edges are called on the broker
presence        every process of a flow says that it runs
batch_ids       what identifies a batch, from its writer to its readers
run_ends        which writers have ended, and whether a run is over
purger          deletes what was read, which makes room for the writer
entries         what a segment has saved: states, positions, and batches that it owes the broker
edge_streams    makes the streams of edges, and compares them with those that are there
output_edge     the end of an edge that publishes
input_edge      the end of an edge that reads
sent_batches    discards what a writer has sent in earlier runs
refusals        why a flow cannot run, or cannot go on
broker_thread   the connections, for a thread that waits
nats_committer  makes the progress of all segments durable
stream_figures  how much waits on the broker
nats_account    the statistics of a `nats` edge
nats_run        all of it, for one run of a flow

A segment is saved as one entry: its states, how far it has read, and what it has sent since the
entry before. The batches are published after it, and deleted where they were read. After a crash
the entry says what may be missing; what was published twice has the same identity.
"""
