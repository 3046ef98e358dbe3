"""Sessions: streams that outlive their connection, and with a store the process.

registry         starts sessions, and finds them
kept_sessions    how many are kept, and for how long
session          one session
session_answers  runs their answers
memory           how much sessions keep
frame_buffer     the last frames of a session
subscriber       a connection that reads a session
observer_tap     frames for observers
store            frames on disk, written by a thread
store_file       the tables of the store
revival          continues sessions of an earlier process
replay           generates an answer again, from a position on
shared           sessions at a broker
servers          servers that share their sessions
"""
