"""The executors of stages that run outside the turns.

host              how an executor waits: blocks a thread, awaits on a loop, or suspends
executor          what all executors share: tasks, credit, failures
element_executor  one call per element
batch_executor    one call for what waits
source_executor   `pull`, `pull_batch`, `__iter__`, `__aiter__`
stream_executor   one generator over the whole input
lockstep          a sync generator under a host that suspends

An executor is a coroutine: it takes tasks from a native port, calls the component, and returns the
results. It is written once and runs under every host.
"""
