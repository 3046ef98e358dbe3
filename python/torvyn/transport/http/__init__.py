"""HTTP: requests, routes, the chat page and the limits of a connection.

exchange          one request and its response
endpoint          one request: host check, API key, route, rejection
routes            the URL table
inference_routes  routes that services answer
stream_routes     routes about one stream
server_routes     health, metrics, models, documents
body_limit        limits the size and the duration of a request body
openapi           the OpenAPI document
page              the chat page
"""
