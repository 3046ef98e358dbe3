//! Hostile guests: one that loops wherever its config says, in every role, and memory and text bombs.
#![allow(clippy::unwrap_used, dead_code)]

use super::{
    EMIT, FILTER, POLLED_SOURCE, PRELUDE, PRINT_IMPORTS, PRINTING, PROCESSOR, READS, ROUTER, SINK, SOURCE,
    WRITES, encode,
};

/// The first letter of the config says where it loops: i(nit), t(eardown), e(lement), l(ast call), n(otified).
const LOOPS: &str = r#"
  (global $where (mut i32) (i32.const 0))
  (func $forever (loop $again (br $again)))
  (func $maybe (param i32) (if (i32.eq (global.get $where) (local.get 0)) (then (call $forever))))
  (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32)
    (if (i32.gt_u (local.get 1) (i32.const 0)) (then (global.set $where (i32.load8_u (local.get 0)))))
    (call $maybe (i32.const 105))
    (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func (export "torvyn:streaming/lifecycle@0.1.0#teardown") (call $maybe (i32.const 116)))
"#;

const AGGREGATOR: &str = r#"
  (func (export "torvyn:aggregation/aggregator@0.1.0#ingest") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0)) (i32.const 128))
  (func (export "torvyn:aggregation/aggregator@0.1.0#flush") (result i32)
    (i32.store8 (i32.const 32) (i32.const 0)) (i32.store (i32.const 40) (i32.const 0)) (i32.const 32))
"#;

const GUARD: &str = r#"
  (func (export "torvyn:filtering/guard@0.2.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0)) (i32.const 128))
"#;

/// The body with a loop at the start of an exported function.
fn looping(body: &str, function: &str, letter: char) -> String {
    let export = format!("#{function}\")");
    let start = body.find(&export).unwrap();
    let at = start + body[start..].find("(result i32)").unwrap() + "(result i32)".len();
    format!("{} (call $maybe (i32.const {})){}", &body[..at], u32::from(letter), &body[at..])
}

fn notified(body: &str) -> String {
    body.replace("(param i32))", "(param i32) (call $maybe (i32.const 110)))")
}

/// One looping guest for each role, by the name of its file.
pub fn loops() -> Vec<(&'static str, Vec<u8>)> {
    let make = |folder, world, body: String| {
        let imports = match world {
            "data-source" | "polled-data-source" => WRITES.to_owned() + PRELUDE + EMIT,
            "managed-transform" | "content-guard" | "stream-aggregator" => {
                READS.to_owned() + WRITES + PRELUDE + EMIT
            }
            _ => READS.to_owned() + PRELUDE,
        };
        encode(folder, None, world, &(imports + LOOPS + &body))
    };
    let start = format!("{FILTER} (start $forever)");
    vec![
        ("loop-source", make(".", "data-source", looping(&notified(SOURCE), "pull", 'e'))),
        ("loop-polled", make("0.2", "polled-data-source", looping(&notified(POLLED_SOURCE), "pull", 'e'))),
        ("loop-processor", make(".", "managed-transform", looping(PROCESSOR, "process", 'e'))),
        ("loop-filter", make(".", "content-filter", looping(FILTER, "evaluate", 'e'))),
        ("loop-guard", make("0.2", "content-guard", looping(GUARD, "evaluate", 'e'))),
        ("loop-router", make(".", "content-router", looping(ROUTER, "route", 'e'))),
        (
            "loop-aggregator",
            make(".", "stream-aggregator", looping(&looping(AGGREGATOR, "ingest", 'e'), "flush", 'l')),
        ),
        ("loop-sink", make(".", "data-sink", looping(&looping(SINK, "push", 'e'), "complete", 'l'))),
        ("loop-start", make(".", "content-filter", start)),
    ]
}

const QUIET: &str = r#"
  (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 0)) (i32.const 64))
  (func (export "torvyn:streaming/lifecycle@0.1.0#teardown"))
  (func $grow (loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))))
"#;

/// By the first letter of the payload: an error as long as all its memory (e), payloads until none is given (b), or all
/// memory, written to (f).
const TEXT_BOMB: &str = r#"
  (func $payloads
    (loop $again
      (call $allocate (i64.const 1048576) (i32.const 80))
      (if (i32.eqz (i32.load8_u (i32.const 80))) (then
        (call $append (i32.load (i32.const 84)) (i32.const 0) (i32.const 1048576) (i32.const 96))
        (br_if $again (i32.eqz (i32.load8_u (i32.const 96)))))))
    (unreachable))
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (local $what i32)
    (call $read_all (local.get 4) (i32.const 16))
    (local.set $what (i32.load8_u (i32.load (i32.const 16))))
    (if (i32.eq (local.get $what) (i32.const 98)) (then (drop (memory.grow (i32.const 16))) (call $payloads)))
    (call $grow)
    (if (i32.eq (local.get $what) (i32.const 102)) (then
      (memory.fill (i32.const 65536) (i32.const 7)
        (i32.mul (i32.sub (memory.size) (i32.const 1)) (i32.const 65536)))
      (unreachable)))
    (i32.store8 (i32.const 128) (i32.const 1)) (i32.store8 (i32.const 136) (i32.const 0))
    (i32.store (i32.const 140) (i32.const 65536))
    (i32.store (i32.const 144) (i32.mul (i32.sub (memory.size) (i32.const 1)) (i32.const 65536)))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.const 128))
"#;

/// Returns as many ports as its memory holds empty names.
const PORT_BOMB: &str = r#"
  (func (export "torvyn:filtering/router@0.1.0#route") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $grow)
    (i32.store8 (i32.const 32) (i32.const 0))
    (i32.store (i32.const 36) (i32.const 65536))
    (i32.store (i32.const 40) (i32.mul (i32.sub (memory.size) (i32.const 1)) (i32.const 8192)))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.const 32))
"#;

/// Prints eight million line ends in one call.
const LINE_BOMB: &str = r#"
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (local $out i32) (local $left i32)
    (memory.fill (i32.const 8192) (i32.const 10) (i32.const 4096))
    (local.set $out (call $get_stdout))
    (local.set $left (i32.const 2000))
    (loop $again
      (call $write (local.get $out) (i32.const 8192) (i32.const 4096) (i32.const 600))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (i32.and (i32.eqz (i32.load8_u (i32.const 600))) (i32.ne (local.get $left) (i32.const 0)))))
    (call $drop_stream (local.get $out))
    (i32.store8 (i32.const 32) (i32.const 0)) (i32.store8 (i32.const 36) (i32.const 1))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (i32.const 32))
"#;

const KEPT: &str = r#"
package test:kept;
world guest {
    import torvyn:streaming/types@0.1.0;
    import torvyn:streaming/buffer-allocator@0.1.0;
    import torvyn:streaming/details@0.2.0;
    export torvyn:streaming/lifecycle@0.1.0;
    export torvyn:streaming/processor@0.1.0;
}
"#;

const KEPT_IMPORTS: &str = r#"
  (import "torvyn:streaming/details@0.2.0" "set-attributes" (func $set_attributes (param i32 i32 i32)))
  (import "torvyn:streaming/types@0.1.0" "[method]mutable-buffer.set-content-type"
    (func $set_content_type (param i32 i32 i32)))
"#;

/// Leaves data with the host, by the first letter of the payload: attributes on buffers that it keeps (a), attributes
/// on the element that it sends (f), 100,000 content types before it returns (t). Other elements are passed on.
const KEPT_BOMB: &str = r#"
  (data (i32.const 256) "a")
  (data (i32.const 298) "x/000000")
  (func $brackets
    (local $at i32)
    (drop (memory.grow (i32.const 2)))
    (i32.store8 (i32.const 65536) (i32.const 91))
    (local.set $at (i32.const 65537))
    (loop $again
      (i32.store (local.get $at) (i32.const 0x2c5d5b))
      (local.set $at (i32.add (local.get $at) (i32.const 3)))
      (br_if $again (i32.lt_u (local.get $at) (i32.const 131069))))
    (i32.store8 (i32.sub (local.get $at) (i32.const 1)) (i32.const 93))
    (i32.store (i32.const 512) (i32.const 256)) (i32.store (i32.const 516) (i32.const 1))
    (i32.store (i32.const 520) (i32.const 65536))
    (i32.store (i32.const 524) (i32.sub (local.get $at) (i32.const 65536))))
  (func $keep_attributes
    (call $brackets)
    (loop $again
      (call $allocate (i64.const 16) (i32.const 80))
      (if (i32.load8_u (i32.const 80)) (then (unreachable)))
      (call $set_attributes (call $freeze (i32.load (i32.const 84))) (i32.const 512) (i32.const 1))
      (call $drop_mutable (i32.load (i32.const 84)))
      (br $again)))
  (func $digit (param $at i32) (param $number i32) (param $unit i32)
    (i32.store8 (local.get $at) (i32.add (i32.const 48)
      (i32.rem_u (i32.div_u (local.get $number) (local.get $unit)) (i32.const 10)))))
  (func $name_types
    (local $number i32)
    (call $allocate (i64.const 16) (i32.const 80))
    (loop $again
      (call $digit (i32.const 300) (local.get $number) (i32.const 100000))
      (call $digit (i32.const 301) (local.get $number) (i32.const 10000))
      (call $digit (i32.const 302) (local.get $number) (i32.const 1000))
      (call $digit (i32.const 303) (local.get $number) (i32.const 100))
      (call $digit (i32.const 304) (local.get $number) (i32.const 10))
      (call $digit (i32.const 305) (local.get $number) (i32.const 1))
      (call $set_content_type (i32.load (i32.const 84)) (i32.const 298) (i32.const 8))
      (local.set $number (i32.add (local.get $number) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $number) (i32.const 100000))))
    (i32.store (i32.const 168) (call $freeze (i32.load (i32.const 84))))
    (call $drop_mutable (i32.load (i32.const 84))))
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (local $what i32)
    (call $read_all (local.get 4) (i32.const 16))
    (local.set $what (i32.load8_u (i32.load (i32.const 16))))
    (if (i32.eq (local.get $what) (i32.const 97)) (then (call $keep_attributes)))
    (call $emit (i32.load (i32.const 16)) (i32.load (i32.const 20)))
    (if (i32.eq (local.get $what) (i32.const 102)) (then
      (call $brackets)
      (call $set_attributes (i32.load (i32.const 168)) (i32.const 512) (i32.const 1))))
    (if (i32.eq (local.get $what) (i32.const 116)) (then (call $name_types)))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 128))
"#;

pub fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let text = format!("{READS}{WRITES}{PRELUDE}{EMIT}{QUIET}{TEXT_BOMB}");
    let lines = format!("{PRINT_IMPORTS}{READS}{PRELUDE}{QUIET}{LINE_BOMB}");
    let kept = format!("{KEPT_IMPORTS}{READS}{WRITES}{PRELUDE}{EMIT}{QUIET}{KEPT_BOMB}");
    vec![
        ("kept-bomb", encode("0.2", Some(KEPT), "guest", &kept)),
        ("text-bomb", encode(".", None, "managed-transform", &text)),
        ("port-bomb", encode(".", None, "content-router", &format!("{READS}{PRELUDE}{QUIET}{PORT_BOMB}"))),
        ("line-bomb", encode(".", Some(PRINTING), "guest", &lines)),
    ]
}
