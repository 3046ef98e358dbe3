//! Guests for the tests: core modules as text, made into components of the worlds in `wit/`, and stages over them.
#![allow(clippy::unwrap_used, dead_code)]

pub mod hostile;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use torvyn_sandbox::{
    Capability, CompiledComponent, Denials, FlowInfo, Grants, GuestStage, Health, Instance, Limits, Line,
    Sandbox, Setup, SharedInstance,
};
use torvyn_stream::{Call, Element, Emission, Ledger, Outbox, Stage, StageError, Step};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Memory, a bump allocator that starts over after each call, and the torvyn imports that are used below.
const PRELUDE: &str = r#"
  (memory (export "memory") 1)
  (global $at (mut i32) (i32.const 4096))
  (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $found i32)
    (local.set $found (i32.and (i32.add (global.get $at) (i32.const 7)) (i32.const -8)))
    (global.set $at (i32.add (local.get $found) (local.get 3)))
    (local.get $found))
"#;

const READS: &str = r#"
  (import "torvyn:streaming/types@0.1.0" "[method]buffer.read-all" (func $read_all (param i32 i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]buffer" (func $drop_buffer (param i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]flow-context" (func $drop_context (param i32)))
"#;

const WRITES: &str = r#"
  (import "torvyn:streaming/buffer-allocator@0.1.0" "allocate" (func $allocate (param i64 i32)))
  (import "torvyn:streaming/types@0.1.0" "[method]mutable-buffer.append" (func $append (param i32 i32 i32 i32)))
  (import "torvyn:streaming/types@0.1.0" "[method]mutable-buffer.freeze" (func $freeze (param i32) (result i32)))
  (import "torvyn:streaming/types@0.1.0" "[resource-drop]mutable-buffer" (func $drop_mutable (param i32)))
"#;

const LIFECYCLE: &str = r#"
  (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func (export "torvyn:streaming/lifecycle@0.1.0#teardown"))
"#;

/// Passes all but payloads that begin with `b`; reads its payload.
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

/// Makes a payload of the bytes at $from and leaves its handle at 104.
const EMIT: &str = r#"
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

/// Sends its payload on, copied through the guest.
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

/// Nothing, for as long as it is asked.
pub const IDLE_SOURCE: &str = r#"
  (func (export "torvyn:streaming/polled-source@0.2.0#pull") (result i32)
    (i32.store8 (i32.const 128) (i32.const 0))
    (i32.store8 (i32.const 136) (i32.const 2))
    (i32.const 128))
  (func (export "torvyn:streaming/polled-source@0.2.0#notify-backpressure") (param i32))
"#;

const CLONES: &str = r#"
  (import "torvyn:streaming/buffer-allocator@0.1.0" "clone-into-mutable" (func $clone (param i32 i32)))
"#;

/// Sends its payload on, copied inside the host.
const CLONING_PROCESSOR: &str = r#"
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

/// The interface of a filter, with other types than the contract's.
const WRONG_FILTER: &str = r#"
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

/// As much of WASI as a guest that prints uses.
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

/// Does what the first byte of the payload says: t(rap), d(ivide), l(oop), m(emory bomb), h(andle bomb), s(tack),
/// o(ut of bounds), e(rror); passes the rest.
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

fn wit(folder: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit").join(folder)
}

/// A component of a world, with `extra` WIT for worlds of the tests' own.
pub fn encode(folder: &str, extra: Option<&str>, world: &str, body: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit(folder)).unwrap();
    if let Some(extra) = extra {
        package = resolve.push_str("extra.wit", extra).unwrap();
    }
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(format!("(module {body})")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// A filter by the name of its interface only.
pub fn wrong_filter() -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("wrong.wit", WRONG_FILTER).unwrap();
    let world = resolve.select_world(&[package], Some("guest")).unwrap();
    let evaluate =
        r#"(func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i32) (result i32) (i32.const 1))"#;
    let mut module = wat::parse_str(format!("(module {evaluate})")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

pub fn cloning_processor() -> Vec<u8> {
    let body = format!("{READS}{WRITES}{CLONES}{PRELUDE}{LIFECYCLE}{CLONING_PROCESSOR}");
    encode(".", None, "managed-transform", &body)
}

pub fn content_filter(body: &str) -> Vec<u8> {
    encode(".", None, "content-filter", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn router(body: &str) -> Vec<u8> {
    encode(".", None, "content-router", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn processor(body: &str) -> Vec<u8> {
    encode(".", None, "managed-transform", &format!("{READS}{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn source(body: &str) -> Vec<u8> {
    encode(".", None, "data-source", &format!("{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn polled_source(body: &str) -> Vec<u8> {
    encode("0.2", None, "polled-data-source", &format!("{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn sink(body: &str) -> Vec<u8> {
    encode(".", None, "data-sink", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

/// Has a lifecycle of its own.
pub fn chaos() -> Vec<u8> {
    encode(".", None, "managed-transform", &format!("{READS}{WRITES}{PRELUDE}{EMIT}{CHAOS}"))
}

/// A filter with further imports from WIT of its own.
pub fn filter_with(extra: &str, imports: &str, body: &str) -> Vec<u8> {
    encode(".", Some(extra), "guest", &format!("{imports}{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn limits() -> Limits {
    Limits { memory_bytes: 4 << 20, call_timeout: Duration::from_millis(50), ..Limits::default() }
}

/// A guest that runs, and everything to look at around it.
pub struct Bench {
    pub stage: GuestStage,
    pub ledger: Ledger,
    pub out: Outbox,
    pub health: Arc<Health>,
    pub shared: SharedInstance,
    pub lines: Arc<Mutex<Vec<Line>>>,
    pub denials: Arc<Denials>,
}

pub fn compile(wasm: &[u8], counts_fuel: bool) -> Arc<CompiledComponent> {
    Arc::new(CompiledComponent::new(&Sandbox::new(), wasm, None, counts_fuel, None).unwrap())
}

pub fn setup(
    compiled: Arc<CompiledComponent>,
    limits: Limits,
    grants: &[&str],
    config: &str,
) -> (Setup, Arc<Mutex<Vec<Line>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let capabilities = grants.iter().map(|text| Capability::parse(text, Path::new("/")).unwrap()).collect();
    let setup = Setup {
        compiled,
        config: config.to_owned(),
        limits,
        grants: Arc::new(Grants { capabilities, seed: None }),
        denials: Arc::default(),
        facts: FlowInfo::default(),
        printer: Arc::new(move |line| seen.lock().unwrap().push(line)),
    };
    (setup, lines)
}

impl Bench {
    pub fn with(wasm: &[u8], limits: Limits, grants: &[&str]) -> Self {
        let (setup, lines) = setup(compile(wasm, limits.fuel.is_some()), limits, grants, "");
        let (shared, health, denials) =
            (SharedInstance::default(), Arc::new(Health::default()), setup.denials.clone());
        *shared.lock().unwrap() = Some(Instance::start(&setup).unwrap());
        let stage = GuestStage::new(setup, vec!["a".into(), "b".into()], shared.clone(), health.clone());
        Self { stage, ledger: Ledger::default(), out: Outbox::default(), health, shared, lines, denials }
    }

    pub fn new(wasm: &[u8]) -> Self {
        Self::with(wasm, limits(), &[])
    }

    pub fn accept(&mut self, text: &str) -> Result<Step, StageError> {
        let mut element = Element::made(Emission::text(text), 0, 7, 1);
        self.stage.accept(&mut element, Call { ledger: &self.ledger, now_ns: 0 }, &mut self.out)
    }

    pub fn call(&self) -> Call<'_> {
        Call { ledger: &self.ledger, now_ns: 0 }
    }

    /// What was made since the last look, as text.
    pub fn made(&mut self) -> Vec<String> {
        let text =
            |made: Emission| String::from_utf8_lossy(made.payload.bytes(made.len).unwrap()).into_owned();
        self.out.made.drain(..).map(text).collect()
    }
}
