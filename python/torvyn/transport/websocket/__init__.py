"""WebSocket: many streams over one connection at `/v1/ws`.

endpoint        the handshake, from the host check to the close code
channel         frames and control messages as JSON texts
message_reader  reads the client's messages, within the size limit
"""
