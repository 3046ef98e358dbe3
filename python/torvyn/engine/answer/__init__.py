"""From the steps of an engine to the deltas of an answer, through guards and aggregators.

engine_run     one request on an engine
response       steps to deltas
choice_text    the text of one choice
answer_flows   each choice through flows
choice_flow    one flow between the engine and the reader
offloaded_run  the same for flows with async or threaded stages
push           sends deltas while the engine has some ready
"""
