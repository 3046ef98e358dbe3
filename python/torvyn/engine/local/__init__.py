"""The `local` engine: llama.cpp inside this process.

engine  the engine
server  llama.cpp's server, without a port
tools   grammars for tools that a model must call
"""
