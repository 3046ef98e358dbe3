"""Sessions outside the process, in NATS JetStream, where any server finds them.

address       the URL of the broker, and the names of what is kept there
patience      how long to wait for a broker that is away
follower      reads the frames of a session in order, as they are written
streams       creates what sessions need at the broker
bucket        entries with revisions
prompts       what was asked, unless it is short
records       one entry per session: whose it is, which server generates it
frame_log     the frames of a session, as messages
store         the sessions that this server generates
takeover      makes the session of another server one of this server
housekeeping  renews records, and deletes what nobody needs
"""
