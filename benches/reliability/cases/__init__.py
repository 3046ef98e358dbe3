"""The cases, one file per question. A new file needs its name in `QUESTIONS`."""

QUESTIONS = (
    "traps",
    "infinite_loops",
    "flow_endings",
    "memory_bombs",
    "host_resources",
    "compile_bombs",
    "malformed_wasm",
    "poisoned_cache",
    "inference",
    "killed_server",
    "cluster_server",
    "api_keys",
    "telemetry",
    "serving",
    "durable_store",
    "edge_gateway",
    "clock_jumps",
    "deployments",
    "swaps",
    "cluster",
)
