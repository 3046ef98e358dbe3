"""WebAssembly components: build, compile, describe and run them in a sandbox.

build             source code to `.wasm`
compile_cache     `.wasm` to compiled code, cached
compiler_client   talks to the compiler's process
compiler_process  the compiler's process, which has resource limits
guest_file        where the `.wasm` file of a component is
description       what a component is, as data
component         a guest as a component of a flow
guest             the modules that run inside a Python guest
audit             grants and denials
audit_log         one JSON object per line, to stdout or to a private file

`link` decides what a guest may use. The calls are native. Only building needs a toolchain.
"""
