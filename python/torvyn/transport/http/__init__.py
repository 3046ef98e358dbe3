"""HTTP: requests, routes, the chat page and the limits of a connection.

exchange          one request and its response
asgi_exchange     the same over ASGI
native_exchange   the same over the native wire
json_body         JSON in bodies and messages, within limits
endpoint          one request: host check, API key, route, rejection
routes            the URL table
inference_routes  routes that services answer
stream_routes     routes about one stream
server_routes     health, metrics, models, documents
pool_routes       the pools of a server, and changes of their members
body_limit        limits the size and the duration of a request body
openapi           the OpenAPI document
page              the chat page
"""
