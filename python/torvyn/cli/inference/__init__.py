"""What `torvyn generate` and `torvyn chat` share.

model_options   the options that choose an engine, a flow or a server
prompt_reader   messages from a terminal or a pipe
conversation    the messages so far, and the file that keeps them
generation      the interface of an answer, local or remote
remote_model    answers of a server
answer_reader   reads an answer and handles signals meanwhile
answer_printer  prints an answer as text, Markdown or frames
"""
