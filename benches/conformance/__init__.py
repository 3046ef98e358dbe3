"""Does the server keep to the protocols, by the judgement of their test suites?

suite       the cases of a suite and how they ended
h2spec      HTTP/2, with and without TLS
autobahn    WebSocket
fuzz        broken requests
fuzz_seeds  the valid requests that it breaks
"""
