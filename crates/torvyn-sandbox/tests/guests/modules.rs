//! The guests of the tests, as core modules in WebAssembly text.

/// Memory, a bump allocator that starts over after each call, and the torvyn imports used below.
pub const PRELUDE: &str = r#"
  (memory (export "memory") 1)
  (global $at (mut i32) (i32.const 4096))
  (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $found i32)
    (local.set $found (i32.and (i32.add (global.get $at) (i32.const 7)) (i32.const -8)))
    (global.set $at (i32.add (local.get $found) (local.get 3)))
    (local.get $found))
"#;

pub const READS: &str = r#"
  (import "torvyn:streaming/types@0.1.0" "[method]buffer.read-all" (func $read_all (param i32 i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]buffer" (func $drop_buffer (param i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]flow-context" (func $drop_context (param i32)))
"#;

pub const WRITES: &str = r#"
  (import "torvyn:streaming/buffer-allocator@0.1.0" "allocate" (func $allocate (param i64 i32)))
  (import "torvyn:streaming/types@0.1.0" "[method]mutable-buffer.append" (func $append (param i32 i32 i32 i32)))
  (import "torvyn:streaming/types@0.1.0" "[method]mutable-buffer.freeze" (func $freeze (param i32) (result i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]mutable-buffer" (func $drop_mutable (param i32)))
"#;

pub const LIFECYCLE: &str = r#"
  (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func (export "torvyn:streaming/lifecycle@0.1.0#teardown"))
"#;

/// Reads its payload, and passes all that do not begin with `b`.
pub const FILTER: &str = r#"
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (i32.store8 (i32.const 32) (i32.const 0))
    (i32.store8 (i32.const 36) (i32.ne (i32.load8_u (i32.load (i32.const 16))) (i32.const 98)))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
"#;

/// Passes everything and reads nothing.
pub const METADATA_FILTER: &str = r#"
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 32) (i32.const 0)) (i32.store8 (i32.const 36) (i32.const 1))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
"#;

/// Creates a payload from the bytes at $from and leaves its handle at 104.
pub const EMIT: &str = r#"
  (func $emit (param $from i32) (param $len i32)
    (local $buffer i32)
    (call $allocate (i64.extend_i32_u (local.get $len)) (i32.const 80))
    (local.set $buffer (i32.load (i32.const 84)))
    (call $append (local.get $buffer) (local.get $from) (local.get $len) (i32.const 80))
    (i32.store (i32.const 168) (call $freeze (local.get $buffer)))
    (call $drop_mutable (local.get $buffer))
    (i64.store (i32.const 144) (i64.const 0)) (i64.store (i32.const 152) (i64.const 0))
    (i32.store (i32.const 160) (i32.const 0)) (i32.store (i32.const 164) (i32.const 0)))
"#;

/// Emits its payload, copied through the guest.
pub const PROCESSOR: &str = r#"
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (call $emit (i32.load (i32.const 16)) (i32.load (i32.const 20)))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 128))
"#;

/// `token` three times.
pub const SOURCE: &str = r#"
  (data (i32.const 256) "token")
  (global $sent (mut i32) (i32.const 0))
  (func (export "torvyn:streaming/source@0.1.0#pull") (result i32)
    (i32.store8 (i32.const 128) (i32.const 0))
    (i32.store8 (i32.const 136) (i32.const 0))
    (if (i32.lt_u (global.get $sent) (i32.const 3)) (then
      (call $emit (i32.const 256) (i32.const 5))
      (i32.store8 (i32.const 136) (i32.const 1))
      (global.set $sent (i32.add (global.get $sent) (i32.const 1)))))
    (i32.const 128))
  (func (export "torvyn:streaming/source@0.1.0#notify-backpressure") (param i32))
"#;

/// Pending, an element, the end.
pub const POLLED_SOURCE: &str = r#"
  (data (i32.const 256) "token")
  (global $asked (mut i32) (i32.const 0))
  (func (export "torvyn:streaming/polled-source@0.2.0#pull") (result i32)
    (i32.store8 (i32.const 128) (i32.const 0))
    (i32.store8 (i32.const 136) (i32.const 1))
    (if (i32.eq (global.get $asked) (i32.const 0)) (then (i32.store8 (i32.const 136) (i32.const 2))))
    (if (i32.eq (global.get $asked) (i32.const 1)) (then
      (call $emit (i32.const 256) (i32.const 5)) (i32.store8 (i32.const 136) (i32.const 0))))
    (global.set $asked (i32.add (global.get $asked) (i32.const 1)))
    (i32.const 128))
  (func (export "torvyn:streaming/polled-source@0.2.0#notify-backpressure") (param i32))
"#;

/// Nothing, for as long as it is pulled.
pub const IDLE_SOURCE: &str = r#"
  (func (export "torvyn:streaming/polled-source@0.2.0#pull") (result i32)
    (i32.store8 (i32.const 128) (i32.const 0))
    (i32.store8 (i32.const 136) (i32.const 2))
    (i32.const 128))
  (func (export "torvyn:streaming/polled-source@0.2.0#notify-backpressure") (param i32))
"#;

pub const CLONES: &str = r#"
  (import "torvyn:streaming/buffer-allocator@0.1.0" "clone-into-mutable" (func $clone (param i32 i32)))
"#;

/// Emits its payload, copied inside the host.
pub const CLONING_PROCESSOR: &str = r#"
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $clone (local.get 4) (i32.const 80))
    (i32.store (i32.const 168) (call $freeze (i32.load (i32.const 84))))
    (call $drop_mutable (i32.load (i32.const 84)))
    (i64.store (i32.const 144) (i64.const 0)) (i64.store (i32.const 152) (i64.const 0))
    (i32.store (i32.const 160) (i32.const 0)) (i32.store (i32.const 164) (i32.const 0))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.const 128))
"#;

/// A filter's interface with types that differ from the contract's.
pub const WRONG_FILTER: &str = r#"
package test:wrong;
world guest {
    export torvyn:filtering/filter@0.1.0;
}
package torvyn:filtering@0.1.0 {
    interface filter {
        evaluate: func(word: u32) -> bool;
    }
}
"#;

/// Reads its payload; asks for a pause after one that begins with `p`.
pub const SINK: &str = r#"
  (func (export "torvyn:streaming/sink@0.1.0#push") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (i32.store8 (i32.const 32) (i32.const 0))
    (i32.store8 (i32.const 36) (i32.eq (i32.load8_u (i32.load (i32.const 16))) (i32.const 112)))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
  (func (export "torvyn:streaming/sink@0.1.0#complete") (result i32)
    (i32.store8 (i32.const 32) (i32.const 0)) (i32.const 32))
"#;

/// To port `a`, and to `b` as well when the payload begins with `b`.
pub const ROUTER: &str = r#"
  (data (i32.const 512) "ab")
  (func (export "torvyn:filtering/router@0.1.0#route") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (i32.store8 (i32.const 32) (i32.const 0))
    (i32.store (i32.const 36) (i32.const 48))
    (i32.store (i32.const 40) (i32.add (i32.const 1)
      (i32.eq (i32.load8_u (i32.load (i32.const 16))) (i32.const 98))))
    (i32.store (i32.const 48) (i32.const 512)) (i32.store (i32.const 52) (i32.const 1))
    (i32.store (i32.const 56) (i32.const 513)) (i32.store (i32.const 60) (i32.const 1))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
"#;

/// As much of WASI as a printing guest uses.
pub const PRINTING: &str = r#"
package test:printing;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    import wasi:cli/stdout@0.2.0;
    import wasi:io/streams@0.2.0;
}
package wasi:io@0.2.0 {
    interface error { resource error; }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
        }
    }
}
package wasi:cli@0.2.0 {
    interface stdout {
        use wasi:io/streams@0.2.0.{output-stream};
        get-stdout: func() -> output-stream;
    }
}
"#;

pub const PRINTS: &str = r#"
  (data (i32.const 512) "hello\nwor")
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (local $out i32)
    (local.set $out (call $get_stdout))
    (call $write (local.get $out) (i32.const 512) (i32.const 9) (i32.const 600))
    (call $drop_stream (local.get $out))
    (i32.store8 (i32.const 32) (i32.const 0)) (i32.store8 (i32.const 36) (i32.const 1))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.const 32))
"#;

pub const PRINT_IMPORTS: &str = r#"
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get_stdout (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.0" "[resource-drop]output-stream" (func $drop_stream (param i32)))
"#;

/// Does what the first byte of the payload says: t(rap), d(ivide), l(oop), m(emory bomb), h(andle bomb), s(tack), o(ut
/// of bounds), e(rror). Other elements pass.
pub const CHAOS: &str = r#"
  (data (i32.const 256) "no good")
  (func $down (param i32) (result i32) (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $loop (loop $again (br $again)))
  (func $memory_bomb (loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable))
  (func $handle_bomb
    (loop $again (call $allocate (i64.const 16) (i32.const 80)) (br_if $again (i32.eqz (i32.load8_u (i32.const 80)))))
    (unreachable))
  (func $does (param $what i32)
    (if (i32.eq (local.get $what) (i32.const 116)) (then (unreachable)))
    (if (i32.eq (local.get $what) (i32.const 100)) (then (drop (i32.div_u (i32.const 1) (i32.const 0)))))
    (if (i32.eq (local.get $what) (i32.const 108)) (then (call $loop)))
    (if (i32.eq (local.get $what) (i32.const 109)) (then (call $memory_bomb)))
    (if (i32.eq (local.get $what) (i32.const 104)) (then (call $handle_bomb)))
    (if (i32.eq (local.get $what) (i32.const 115)) (then (drop (call $down (i32.const 0)))))
    (if (i32.eq (local.get $what) (i32.const 111)) (then (drop (i32.load (i32.const -8))))))
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (local $what i32)
    (call $read_all (local.get 4) (i32.const 16))
    (local.set $what (i32.load8_u (i32.load (i32.const 16))))
    (call $does (local.get $what))
    (call $emit (i32.load (i32.const 16)) (i32.load (i32.const 20)))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0))
    (if (i32.eq (local.get $what) (i32.const 101)) (then
      (i32.store8 (i32.const 128) (i32.const 1)) (i32.store8 (i32.const 136) (i32.const 0))
      (i32.store (i32.const 140) (i32.const 256)) (i32.store (i32.const 144) (i32.const 7))))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 128))
  (global $end_badly (mut i32) (i32.const 0))
  (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32)
    (if (i32.gt_u (local.get 1) (i32.const 0)) (then
      (if (i32.eq (i32.load8_u (local.get 0)) (i32.const 84))
        (then (global.set $end_badly (i32.const 108)))
        (else (call $does (i32.load8_u (local.get 0)))))))
    (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func (export "torvyn:streaming/lifecycle@0.1.0#teardown") (call $does (global.get $end_badly)))
"#;
