"""From the steps of an engine to the pieces that a reader gets, through guards and aggregators.

A piece is a `str | Delta`. The hops of a token from the engine to the socket:

 1. `Engine.steps`            the engine yields a step: token ids, bytes or text
 2. `EngineRun.push`          reads the step in the one loop over the engine's steps
 3. `Response.pieces`         the step becomes pieces: text, stop strings, finish reasons
 4. `AnswerFlows.feed`        the pieces of each choice pass its guards
 5. `AnswerStream.add`        the transport's reader buffers pieces and encodes them as frames
 6. `FrameSender.send`        the frames go to the wire as one chunk

A program reads the same pieces from a `Generation`, with `async for` or `for`.

answer           `Answer` and `Reader`, the two sides of `push`
answer_flows     each choice through its flows
choice_flow      one flow between the engine and the reader
choice_text      the text of one choice
direct_path      plain text to the client, without a step in Python
flow_fit         which flows an answer can go through
engine_run       one request on an engine
offloaded_flows  how pieces travel when flows have async or threaded stages
outcome          how a run ends: the last pieces, the error
push             sends while the engine waits
replay           what of an answer that is generated again is new
response         steps to pieces
"""
