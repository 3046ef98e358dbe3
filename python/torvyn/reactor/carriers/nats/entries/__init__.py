"""What segments have saved on the broker.

flow_bucket    where the entries of a flow are, and which project it belongs to
saved_segment  the content: states, positions, and batches that are owed to the broker
state_pieces   the changes of states that are not in the entry any more
segment_entry  where it is stored, and which process owns it
saved_checks   whether it fits the flow as it is now
writer_entries  what the writers of an edge have saved, for its reader
"""
