"""The `openai` engine: any upstream that speaks OpenAI's protocol.

engine          the engine
request_body    a request as JSON
client          the interface of its HTTP clients
native_client   the native client
native_http     the native client on a running loop
aiohttp_client  aiohttp as the client
stream          the upstream's bytes to steps
steps           what a stream says, as steps
failures        typed errors
"""
