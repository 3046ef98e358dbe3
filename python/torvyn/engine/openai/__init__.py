"""The `openai` engine: any upstream that speaks OpenAI's protocol.

engine        the engine
request_body  a request as JSON
stream        the upstream's bytes to steps
retry_after   parses the `Retry-After` header
failures      typed errors
"""
