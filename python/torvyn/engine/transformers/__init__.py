"""The `transformers` engine: models of the transformers library inside this process."""
