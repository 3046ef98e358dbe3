"""Engines as nodes of a flow: sources, and processors behind a `request`.

source               an engine as a source
processor            an engine as a processor
answer_state         how much of an answer was taken, to continue it after a crash
processors           one processor class per engine
source_request       `request`
source_scripted      `engine:scripted`
source_openai        `engine:openai`
source_local         `engine:local`
source_transformers  `engine:transformers`
source_mlc           `engine:mlc`
source_pool          `engine:pool`
"""
