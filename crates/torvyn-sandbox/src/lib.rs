//! Sandboxed components: WebAssembly guests as stages of a flow.
