"""Sessions: answers that outlive their connections, and the process.

book      which sessions there are, and how long they are kept
session   an answer in a ring                     reader   a connection that reads from it
ring      the last frames                         store    frames on disk, written by a thread
file      the tables of the store
revival   what another process goes on with       replay   an answer made again, from some place on
"""
