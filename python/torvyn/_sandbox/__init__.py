"""WebAssembly components: build, compile, describe and run them in a sandbox.

project           a guest's project: sources, build output, WIT
build             source code to `.wasm`, by c_guest, python_guest or rust_guest
c_guest           guests in C
python_guest      guests in Python
rust_guest        guests in Rust
rustc_wrapper     a script that stands for rustc
compiler          `.wasm` to compiled code, cached; what a component is, as data
compiler_process  the compiler's process, which has resource limits
component         a guest as a component of a flow
guest             the modules that run inside a Python guest
audit             grants and denials

`link` decides what a guest may use. The calls are native. Only building needs a toolchain.
"""
