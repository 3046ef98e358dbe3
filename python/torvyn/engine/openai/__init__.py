"""The `openai` engine: any upstream that speaks the OpenAI protocol."""
