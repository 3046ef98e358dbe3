"""The transports of the client: SSE, WebSocket and gRPC behind one interface.

transport      the interface
http           requests to a server
sse            one HTTP request per connection
websocket      a WebSocket as a channel
grpc           a gRPC session as a channel
grpc_messages  records to gRPC messages, and back
channel        one connection that carries many streams
channel_pool   opens channels and shares them between streams
"""
