//! What a guest can access: nothing but what it was granted.
#![allow(clippy::unwrap_used)]

mod guests;

use std::time::{Duration, Instant};

use guests::{Bench, PRINT_IMPORTS, PRINTING, PRINTS, limits};
use torvyn_sandbox::{Channel, Limits};
use torvyn_stream::{ErrorKind, Step};

fn printed(grants: &[&str]) -> Vec<(String, bool)> {
    let wasm = guests::filter_with(PRINTING, PRINT_IMPORTS, PRINTS);
    let mut bench = Bench::with(&wasm, limits(), grants);
    assert!(matches!(bench.accept("x"), Ok(Step::Forward)));
    assert!(matches!(bench.accept("x"), Ok(Step::Forward)));
    let lines = bench.lines.lock().unwrap();
    assert!(lines.iter().all(|line| line.channel == Channel::Stdout));
    lines.iter().map(|line| (line.text.clone(), line.granted)).collect()
}

#[test]
fn what_a_guest_prints_comes_in_whole_lines_after_its_call() {
    assert_eq!(printed(&["stdio:stdout"]), [("hello".into(), true), ("worhello".into(), true)]);
}

#[test]
fn what_a_guest_prints_without_a_grant_is_marked_for_the_log() {
    assert_eq!(printed(&[]), [("hello".into(), false), ("worhello".into(), false)]);
}

const SLEEPING: &str = r#"
package test:sleeping;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    import wasi:clocks/monotonic-clock@0.2.0;
    import wasi:io/poll@0.2.0;
}
package wasi:io@0.2.0 {
    interface poll { resource pollable { block: func(); } }
}
package wasi:clocks@0.2.0 {
    interface monotonic-clock {
        use wasi:io/poll@0.2.0.{pollable};
        subscribe-duration: func(when: u64) -> pollable;
    }
}
"#;

#[test]
fn a_guest_that_sleeps_in_the_host_is_cut_at_its_deadline() {
    let imports = r#"
      (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
      (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
      (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop_pollable (param i32)))
    "#;
    let sleeps = r#"
      (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
        (call $block (call $after (i64.const 3600000000000)))
        (unreachable))
    "#;
    let wasm = guests::filter_with(SLEEPING, imports, sleeps);
    let mut bench = Bench::with(&wasm, Limits { call_timeout: Duration::from_millis(50), ..limits() }, &[]);
    let started = Instant::now();
    let error = bench.accept("x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_millis(550));
}

#[test]
fn the_environment_is_empty_but_for_what_is_granted() {
    let environment = r#"
package test:environment;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    import wasi:cli/environment@0.2.0;
}
package wasi:cli@0.2.0 {
    interface environment { get-environment: func() -> list<tuple<string, string>>; }
}
"#;
    let imports =
        r#"(import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))"#;
    // Passes when there is exactly one variable.
    let looks = r#"
      (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
        (call $environment (i32.const 16))
        (i32.store8 (i32.const 32) (i32.const 0))
        (i32.store8 (i32.const 36) (i32.eq (i32.load (i32.const 20)) (i32.const 1)))
        (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
        (i32.const 32))
    "#;
    let wasm = guests::filter_with(environment, imports, looks);
    assert!(matches!(Bench::with(&wasm, limits(), &[]).accept("x"), Ok(Step::Drop)));
    let one = &["environment:read:CARGO_MANIFEST_DIR"];
    assert!(matches!(Bench::with(&wasm, limits(), one).accept("x"), Ok(Step::Forward)));
}

#[test]
fn a_guest_can_ask_what_it_is_granted() {
    let asking = r#"
package test:asking;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    include torvyn:capabilities/queries@0.1.0;
}
"#;
    let imports = r#"
      (import "torvyn:capabilities/capability-query@0.1.0" "has-capability" (func $has (param i32 i32) (result i32)))
    "#;
    let asks = r#"
      (data (i32.const 512) "stdio:stdout")
      (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
        (i32.store8 (i32.const 32) (i32.const 0))
        (i32.store8 (i32.const 36) (call $has (i32.const 512) (i32.const 12)))
        (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
        (i32.const 32))
    "#;
    let wasm = guests::filter_with(asking, imports, asks);
    assert!(matches!(Bench::with(&wasm, limits(), &[]).accept("x"), Ok(Step::Drop)));
    assert!(matches!(Bench::with(&wasm, limits(), &["stdio:stdout"]).accept("x"), Ok(Step::Forward)));
}
