"""WebSocket: many streams over one connection at `/v1/ws`.

endpoint        the handshake, from the host check to the close code
socket          one WebSocket, whatever server carries it
asgi_socket     over ASGI
native_socket   over the native wire
channel         frames and control messages as JSON texts
message_reader  reads the client's messages
"""
