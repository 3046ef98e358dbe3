//! Guests that misbehave: each is stopped at its limit, the error says what happened, and the next call works.
#![allow(clippy::unwrap_used)]

mod guests;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guests::{Bench, limits};
use torvyn_sandbox::{CompiledComponent, Instance, Limits, Sandbox, SandboxError};
use torvyn_stream::{ErrorKind, Stage, StageError, Step};

/// Feeds one bad element and one good one; returns the error of the first.
fn survives(text: &str) -> StageError {
    let mut bench = Bench::new(&guests::chaos());
    let error = bench.accept(text).unwrap_err();
    assert!(matches!(bench.accept("fine"), Ok(Step::Done)), "the next element goes through");
    assert_eq!(bench.made(), ["fine"]);
    assert_eq!(bench.health.traps.load(Ordering::Relaxed), 1);
    assert_eq!(bench.health.replaced.load(Ordering::Relaxed), 1);
    error
}

#[test]
fn a_trap_names_the_function_the_cause_and_the_guests_backtrace() {
    let error = survives("trap");
    assert_eq!(error.kind, ErrorKind::Internal);
    let lines: Vec<&str> = error.message.lines().collect();
    assert_eq!(lines[0], "`process` trapped: wasm `unreachable` instruction executed");
    assert_eq!(lines[1], "guest backtrace:");
    assert_eq!(lines[2], "  0: does");
    assert!(lines[3].starts_with("  1: "), "{}", lines[3]);
}

#[test]
fn division_by_zero_and_a_wild_pointer_are_traps() {
    assert!(survives("divide").message.contains("integer divide by zero"));
    assert!(survives("out").message.contains("out of bounds memory access"));
}

#[test]
fn an_infinite_loop_is_cut_at_its_deadline() {
    let started = Instant::now();
    let error = survives("loop");
    assert_eq!(error.kind, ErrorKind::DeadlineExceeded);
    assert!(
        error.message.starts_with("`process` took longer than 0.05 s and was stopped"),
        "{}",
        error.message
    );
    assert!(started.elapsed() < limits().call_timeout + Duration::from_millis(500));
}

#[test]
fn an_infinite_loop_in_init_is_cut_too() {
    let short = Limits { init_timeout: Duration::from_millis(50), ..limits() };
    let (setup, _) = guests::setup(guests::compile(&guests::chaos(), false), short, &[], "loop");
    let error = Instance::start(&setup).err().unwrap();
    assert!(error.message.starts_with("`init` took longer than 0.05 s"), "{}", error.message);
}

#[test]
fn an_infinite_loop_in_teardown_is_cut_too() {
    let (setup, _) = guests::setup(guests::compile(&guests::chaos(), false), limits(), &[], "Then loop");
    let instance = Instance::start(&setup).unwrap();
    let error = instance.teardown(&setup.printer, Duration::from_millis(50)).unwrap_err();
    assert!(error.message.starts_with("`teardown` took longer than 0.05 s"), "{}", error.message);
}

#[test]
fn an_infinite_loop_in_a_start_section_is_cut_too() {
    let wasm = guests::content_filter(&format!("{} (func $s (loop $l (br $l))) (start $s)", guests::FILTER));
    let short = Limits { init_timeout: Duration::from_millis(50), ..limits() };
    let (setup, _) = guests::setup(guests::compile(&wasm, false), short, &[], "");
    let error = Instance::start(&setup).err().unwrap();
    assert!(error.message.starts_with("`instantiate` took longer than 0.05 s"), "{}", error.message);
}

#[test]
fn a_memory_bomb_stops_at_its_limit() {
    let error = survives("memory");
    assert!(error.message.contains("the sandbox refused 4259840 bytes of memory"), "{}", error.message);
    assert!(error.message.contains("the limit is 4194304"), "{}", error.message);
}

#[test]
fn a_handle_bomb_stops_at_its_limit() {
    let error = survives("handles");
    assert!(
        error.message.contains("the sandbox refused more than 1024 payload handles"),
        "{}",
        error.message
    );
}

#[test]
fn a_stack_overflow_is_an_error() {
    assert!(survives("stack").message.contains("call stack exhausted"));
}

#[test]
fn a_guests_own_error_keeps_the_instance() {
    let mut bench = Bench::new(&guests::chaos());
    let error = bench.accept("error").unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::InvalidInput, "no good"));
    assert_eq!(bench.health.traps.load(Ordering::Relaxed), 0);
}

#[test]
fn a_guest_that_traps_every_time_is_left_alone() {
    let mut bench = Bench::new(&guests::chaos());
    for _ in 0..5 {
        assert_eq!(bench.accept("trap").unwrap_err().kind, ErrorKind::Internal);
    }
    let error = bench.accept("fine").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.starts_with("the component trapped 5 times in a row"), "{}", error.message);
    assert_eq!(bench.health.refused.load(Ordering::Relaxed), 1);
}

#[test]
fn fuel_stops_a_loop_at_the_same_place_each_time() {
    let fuelled = Limits { fuel: Some(100_000), ..limits() };
    let mut bench = Bench::with(&guests::chaos(), fuelled, &[]);
    assert!(matches!(bench.accept("fine"), Ok(Step::Done)));
    let error = bench.accept("loop").unwrap_err();
    assert!(error.message.starts_with("`process` used up its fuel"), "{}", error.message);
}

#[test]
fn more_memory_than_the_limit_from_the_start_is_refused() {
    let small = Limits { memory_bytes: 1024, ..limits() };
    let (setup, _) = guests::setup(guests::compile(&guests::chaos(), false), small, &[], "");
    let error = Instance::start(&setup).err().unwrap();
    assert!(error.message.contains("refused 65536 bytes of memory"), "{}", error.message);
}

#[test]
fn what_is_no_component_is_refused_in_words() {
    let refused =
        |wasm: &[u8]| CompiledComponent::new(&Sandbox::new(), wasm, None, false, None).err().unwrap();
    assert!(matches!(refused(b"hello"), SandboxError::Invalid(_)));
    assert!(matches!(refused(&wat::parse_str("(module)").unwrap()), SandboxError::CoreModule));
    assert!(matches!(refused(&wat::parse_str("(component)").unwrap()), SandboxError::NoRole { .. }));
    let unknown = r#"(component (import "other:thing/here" (instance (export "f" (func)))))"#;
    assert!(matches!(refused(&wat::parse_str(unknown).unwrap()), SandboxError::NoRole { .. }));
}

/// Every byte of a component, flipped: an error or a component that still runs, never a panic or a signal.
#[test]
fn mutated_components_never_harm_the_host() {
    let sandbox = Sandbox::new();
    let wasm = guests::content_filter(guests::FILTER);
    for at in (8..wasm.len()).step_by(7) {
        let mut broken = wasm.clone();
        broken[at] ^= 0x55;
        let Ok(compiled) = CompiledComponent::new(&sandbox, &broken, None, false, None) else { continue };
        let short = Limits { init_timeout: Duration::from_millis(50), ..limits() };
        let (setup, _) = guests::setup(compiled.into(), short, &[], "");
        let _ = Instance::start(&setup);
    }
}

#[test]
fn a_source_that_traps_is_told_nothing_more() {
    let wasm = guests::source(&guests::SOURCE.replace("(param i32))", "(param i32) (unreachable))"));
    let mut bench = Bench::new(&wasm);
    bench.stage.pressure(true);
    assert_eq!(bench.health.traps.load(Ordering::Relaxed), 1);
    bench.stage.pressure(false);
    assert_eq!(bench.health.traps.load(Ordering::Relaxed), 1);
}
