"""OpenAI's dialect: chunks of upstreams, and whole response bodies.

chunk_decoder    bytes of an upstream to deltas, finishes, usage and errors
chunk_fields     the fields of a chunk, as providers fill them
finish_reasons   providers' finish reasons to ours
surrogate_pairs  joins surrogate pairs that an upstream split
response_bodies  whole answers for clients that do not stream
"""
