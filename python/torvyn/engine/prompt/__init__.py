"""The prompt on its way to the engine, through the guards in front of it.

prompt        the texts of a prompt as elements, and back
prompt_texts  which texts of a request a model reads
prompt_flow   a request through a flow
prompt_file   a prompt from a file or standard input
"""
