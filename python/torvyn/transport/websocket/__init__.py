"""WebSocket: many streams over one connection at `/v1/ws`.

endpoint  the endpoint
"""
