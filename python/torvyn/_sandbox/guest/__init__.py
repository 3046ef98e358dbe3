"""The modules that run inside a Python guest, next to the component and `torvyn._contract`.

adapter        creates the component and calls it
as_source      `torvyn:streaming/polled-source`
as_processor   `torvyn:streaming/expander`
as_filter      `torvyn:filtering/guard`
as_router      `torvyn:filtering/router`
as_aggregator  `torvyn:aggregation/aggregator`
as_sink        `torvyn:streaming/sink`
batches        `batch-processor` and the other batch interfaces of 0.3.0
state          `torvyn:streaming/state`
deep_json      reports deeply nested JSON as `RecursionError`

The build copies these modules into the guest; the host never imports them. componentize-py
generates `wit_world`.
"""
