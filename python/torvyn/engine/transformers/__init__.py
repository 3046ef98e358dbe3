"""The `transformers` engine: models of the transformers library inside this process.

engine         the engine
model          a model and its tokenizer
batch          many requests in one continuous batch
batch_setup    memory, sampler and warm-up of the batch
result_router  results of the batch to their requests
sampler        picks the next token
token_watch    token ids from `generate`, and when to stop
"""
