"""The OpenAI dialect: chunks of upstreams and whole response bodies."""
