"""The reference page of the protocol. Its examples run here; the page shows their output."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any, Final

from reference_python import NOTE

from torvyn.protocol import FINISH_REASONS, VERSION

PAGE: Final = f"""# The protocol

A streamed answer consists of frames. `torvyn.protocol` encodes them to bytes and decodes them:
`decode(encode(x)) == x` for any text. This is version {VERSION} of Torvyn's own dialect; a start
frame carries the number. A reader ignores types and members that it does not know, so additions
keep the number; a change of meaning gets a new one.

## Frames

| frame | members | when |
|---|---|---|
| `start` | `version`, `id`, `flow`, `created` (Unix seconds) | first, once |
| `delta` | `seq`, `index`, `kind`, `text` or `call`, `logprobs`? | new text of choice `index` |
| `meta` | `seq`, `data` | other data of the flow |
| `error` | `seq`, `code`, `message`, `retryable` | at most once, before `end` |
| `end` | `seq`, `finish`, `usage`?, `timing`? | last, exactly once |
| `heartbeat` | | when nothing was sent for a while |

`kind` is `text`, `reasoning` or `tool_call`; a `call` has `index`, `arguments` and, in its first
piece, `id` and `name`. Each entry of `finish` has `index`, `reason` and, if known, `matched_stop`
and `stopped_by`. Reasons: {", ".join(f"`{reason}`" for reason in FINISH_REASONS)}.

Members are written in the order of this table, after `type`, without white space. `seq` counts from
1 over all choices. A connection that carries several streams has `stream_id` before `type`. In
strings, quotes, backslashes, control characters, U+0085, U+2028 and U+2029 are escaped, because
some readers split lines there; everything else is plain UTF-8. If the halves of a surrogate pair
arrive in two deltas of a choice, they leave as one character in the second; a lone half leaves as
U+FFFD.

```python
from torvyn.protocol import DeltaFrame, Encoder, EndFrame, ErrorFrame, Finish, Frame
from torvyn.protocol import HeartbeatFrame, MetaFrame, ToolCall, Usage

identity = dict(id="req-1", flow="chat", created=1700000000, epoch="k3")
wire = Encoder("torvyn", "lines", **identity)
frames: list[Frame] = [
    DeltaFrame(1, 0, "text", 'Say "hi"\\n'),
    DeltaFrame(2, 0, "reasoning", "hm", logprobs=({{"token": "hm", "logprob": -0.5}},)),
    DeltaFrame(3, 0, "tool_call", call=ToolCall(0, "call_1", "now", '{{"zone":')),
    MetaFrame(4, {{"queue_s": 0.25}}),
    ErrorFrame(5, "engine.unavailable", "the engine went away", retryable=True),
    EndFrame(6, (Finish(0, "error"),), Usage(5, 2), {{"ttft_s": 0.25}}),
    HeartbeatFrame(),
]
print(wire.start().decode(), end="")
for frame in frames:
    print(wire.encode(frame).decode(), end="")
```

## Framings

| framing | a block is | ends with |
|---|---|---|
| `sse` | `id: <epoch>-<seq>`, LF (torvyn dialect), `data: `, JSON | LF LF |
| `lines` | JSON | LF |
| `json` | JSON, one WebSocket message (torvyn dialect) | nothing |

In an event stream the id names the last complete frame: if a frame has several blocks, only its
last block has the id. `start` is number 0. There is no `event:` line: the type is in the data, so a
browser's `onmessage` gets every frame, and none is mistaken for its own `error` event. A heartbeat
is `: hb` and one LF; a blank line would end a block.

```python
wire = Encoder("torvyn", "sse", **identity)
print((wire.start() + wire.text("Hi") + wire.heartbeat()).decode(), end="")
```

## WebSocket

One WebSocket, `/v1/ws`, carries many streams. Every message is one JSON object in a text message.
The client chooses a `stream_id` of up to 128 characters; it can use it again after the `end` of the
stream.

| from the client | members | what it does |
|---|---|---|
| `start` | `stream_id`, `credit`?, the body of `POST /v1/streams` | starts a stream |
| `stop` | `stream_id` | sends held text, then ends with `stopped_by: client` |
| `cancel` | `stream_id` | drops held text, then ends with `cancelled` |
| `update` | `stream_id`, `stop`?, `max_tokens`? | changes the limits, for text not yet sent |
| `credit` | `stream_id`, `frames` | grants more frames |
| `resume` | `stream_id`, `id`, `after`?, `credit`? | continues an answer after `<epoch>-<seq>` |
| `observe` | `stream_id`, `id`, `credit`? | watches an answer |
| `ping` | | the server replies with `pong` |

| from the server | members | when |
|---|---|---|
| a frame | `stream_id` first, then its own; `start` has `epoch` too | a frame of that stream |
| `refused` | `stream_id`?, `code`, `message`, `status`, `retryable`... | not accepted, or failed |
| `heartbeat` | | nothing was sent on the connection for a while |
| `pong` | | after a `ping` |

A `refused` may also have a `hint`. If an upstream has answered, it has what [clients
hear](statuses.md) of it: `upstream_code`, `retry_after_s`, and `limits`, its rate limits by the
names of its headers.

A stream without `credit` has no limit. With it, each `delta` and `meta` uses one; `start`, and
everything that is sent together with the `end`, uses none, and a stream that was stopped or
cancelled needs no more. `credit` for a stream that has ended is ignored.

An `update` can lower a limit at any time, and raise it up to the limit that the engine got at the
start; an upstream that was given stop strings may still stop at those.

The server closes with 1001 at shutdown, 1009 after a message that is too large, 1011 after an
internal error, and 1008 after an API key was revoked, if a message is not completed in time, and if
it cannot reject a handshake with a status. A frame that breaks the WebSocket protocol is answered
with 1002, and text that is not UTF-8 with 1007. The subprotocol is `torvyn.v1`; a browser, which
cannot set headers, adds the subprotocol `torvyn.key.KEY`.

## OpenAI's dialects

`openai-chat` and `openai-completions` carry the same frames as chunks. Chat sends a role chunk for
each choice, at `start` or before its first delta. Reasoning is `reasoning_content`; a stop string
that matched is `stop_reason`. `end` is a finish chunk for each choice, a chunk with `choices: []`
and the usage if `include_usage` was set, and `[DONE]` (in event streams). `meta` and `timing` are
not sent. Events have no ids: these answers cannot be resumed, and some clients expect every event
to begin with `data:`.

```python
wire = Encoder("openai-chat", "sse", include_usage=True, **identity)
print((wire.start() + wire.text("Hi")).decode(), end="")
print(wire.encode(EndFrame(2, (Finish(0, "stop", "END"),), Usage(5, 1))).decode(), end="")
```

Completions have the text next to the index. They have no fields for reasoning and tools: those
go into `reasoning_content` and `tool_calls` of a choice whose `text` is empty, so that nothing is
mixed or lost.

```python
wire = Encoder("openai-completions", "lines", **identity)
print((wire.text("Hi") + wire.encode(DeltaFrame(2, 0, "reasoning", "hm"))).decode(), end="")
```

An error and a cancellation end a stream in the same way: an `error` object, then `[DONE]`. `type`
is `server_error` if a retry may help, `api_error` if not, `cancelled` after a cancellation.

```python
wire = Encoder("openai-chat", "sse", **identity)
print(wire.error("engine.unavailable", "the engine went away", True).decode(), end="")
print(wire.encode(EndFrame(2, (Finish(0, "error"),))).decode(), end="")
```

## Decoding

`Decoder(dialect, framing)` returns frames; `finish` raises `protocol.stream-cut` if the connection
ended before the answer did. `ChunkDecoder` reads what other servers send: deltas, one `Finish` for
each choice, `Usage`, errors, and `DONE`. It accepts `reasoning_content` and `reasoning`, content in
parts, usage in any known place, calls without an index, and errors in every known form; a finish
reason that only its provider knows is a `stop`. `EventParser` parses only the event stream, by the
rules of the HTML standard, with a limit per line (1 MiB) and per event (8 MiB).

```python
from torvyn.protocol import ChunkDecoder

decoder = ChunkDecoder()
for item in decoder.put(
    b'data: {{"id":"x","model":"m","choices":[{{"index":0,"delta":{{"content":"Hi"}}}}]}}\\n\\n'
    b'data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}\\n\\n'
    b"data: [DONE]\\n\\n"
):
    print(item)
```

`PartialJson` reads the arguments of a call while they arrive, each character once. It shows only
what will not change: complete keys, numbers and literals, and strings as far as they have arrived.

```python
from torvyn.protocol import PartialJson

arguments = PartialJson()
for piece in ('{{"city": "Pa', 'ris", "days": 1', '2, "units', '": "metric"}}'):
    arguments.put(piece)
    print(arguments.value)
print(arguments.finish())
```

## In a flow

`Frames(encoder, index)` as the last stage of a fed flow turns elements into frames in the same
native call. Its outputs are bytes; the caller that feeds the flow writes `start`, `error` and
`end`.

```python
import torvyn
from torvyn.protocol import Frames

wire = Encoder("torvyn", "lines", **identity)
flow = torvyn.Flow(torvyn.filter(lambda element: element.text != "secret"), Frames(wire))
thought = torvyn.Output("hm", attributes={{"kind": "reasoning"}})
for element in flow.feed(["Hello", "secret", thought]):
    print(element.text, end="")
```
"""


def protocol_page() -> str:
    """The page, with what each example prints below it."""
    names: dict[str, Any] = {}
    parts = re.split(r"(```python\n.*?```\n)", PAGE, flags=re.DOTALL)
    return NOTE + "".join(f"{part}{_printed(part, names)}" for part in parts)


def _printed(part: str, names: dict[str, Any]) -> str:
    if not part.startswith("```python\n"):
        return ""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(part.removeprefix("```python\n").removesuffix("```\n"), names)
    return f"\n```text\n{out.getvalue().rstrip()}\n```\n"
