"""Options of flows, nodes and edges that are misspelt or of the wrong type."""

import torvyn
from torvyn.testing import run_flow

torvyn.Flow(["a"], priority="hihg")  # error: argument
torvyn.Flow(["a"], backpressure="bolck")  # error: argument
torvyn.Flow(["a"], backpresure="block")  # error: arguments
torvyn.Flow(["a"], queue_depth="64")  # error: argument
torvyn.Flow(["a"], deadline_s="5s")  # error: argument
torvyn.Flow(["a"], on_error="skpi")  # error: argument
torvyn.Flow(["a"], on_error={"policy": "skpi"})  # error: argument
torvyn.Flow(["a"], on_error={"policy": "retry", "tries": 3})  # error: argument
torvyn.Flow(["a"], on_error={"max": 3})  # error: argument
torvyn.Flow(["a"], clock=5)  # error: argument

flow = torvyn.Flow()
flow.add("model", "scripted", confg={})  # error: arguments
flow.add("model", "scripted", config=5)  # error: argument
flow.add("model", "scripted", run="thraed")  # error: argument
flow.add("model", "scripted", on_error="ignore")  # error: argument
flow.add("model", "scripted", call_timeout="5s")  # error: arguments
flow.add("model", "scripted", seed="7")  # error: argument
flow.connect("model", "sink", queue_dept=8)  # error: arguments
flow.connect("model", "sink", backpressure="drop")  # error: argument
flow.connect("model", "sink", low_watermark="half")  # error: argument
flow.connect("model")  # error: arguments

run_flow(5)  # error: argument
run_flow(["a"], capacty=4)  # error: arguments
run_flow(["a"], backpressure="bolck")  # error: argument
run_flow(["a"], until="idle")  # error: argument
