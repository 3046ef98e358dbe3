"""The files of a store, and what can go wrong with them.

store_file  the connection, its WAL, and failures
database    the schema, and a connection with its settings
budget      how `max_bytes` is divided, and what a row occupies
ballast     a reserve of disk space, freed when the disk is full
high_water  positions beside the database, by which lost commits are noticed
salvage     copies what is readable from a damaged database
"""
