"""The `openai` engine: any upstream that speaks OpenAI's protocol.

engine        the engine
request_body  a request as JSON
stream        the upstream's bytes to steps
failures      typed errors
"""
