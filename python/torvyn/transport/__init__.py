"""Transport: services answer requests over HTTP, WebSocket and gRPC.

Programs import from `torvyn.serve`.

application      wires the parts of a server together
listener         sockets, TLS, signals, shutdown
settings         addresses and limits
services         opens the services of a manifest
request_body     a request body to a request
call             one request that is being answered
answer_stream    the pieces of an answer to frames
whole_answer     an answer that does not stream
wire             where frames go
dispatch         starts, resumes and observes streams, whatever the transport
frame_sender     sends frames, with heartbeats and write timeouts
rejection        a request that was not accepted
status_table     the statuses of failures, for all transports
public_error     what a client may know of an error
http             routes, bodies, the chat page
workers          several processes that share a port
websocket        the WebSocket endpoint
grpc             gRPC calls, health and reflection
multiplex        many streams over one connection
sessions         streams that outlive their connection
access           API keys, limits, admission, host checks, audit
telemetry        metrics, request log, traces
"""
