"""HTTP, for the source and the sink of that name.

uplink         the thread that sends requests over one connection, again and again if it must
http_client    one connection to a server
answer         what a response means: delivered, try again, or an error of the elements
adaptive_rate  the rate at which a server that is overloaded gets elements
batch_body     elements as the body of a request, and their idempotency key
listener       the server of the source, on a thread and an event loop of its own
request_body   the body of a request as elements
"""
