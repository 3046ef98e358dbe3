//! Guests in the pool and guests that do not fit into it behave the same, and no guest finds another one's data.
#![allow(clippy::unwrap_used)]

mod guests;

use std::sync::atomic::Ordering;
use std::time::Duration;

use guests::Bench;
use torvyn_sandbox::{Instance, Limits};

/// `w` overwrites its data and a page of its own, and traps; anything else returns the data, and the memory size in
/// pages as one letter.
const SCRIBBLER: &str = r#"
  (data (i32.const 256) "clean!")
  (func (export "torvyn:streaming/processor@0.1.0#process") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (if (i32.eq (i32.load8_u (i32.load (i32.const 16))) (i32.const 119)) (then
      (drop (memory.grow (i32.const 3)))
      (memory.fill (i32.const 256) (i32.const 120) (i32.const 200000))
      (unreachable)))
    (i32.store8 (i32.const 262) (i32.add (i32.const 48) (memory.size)))
    (i32.store8 (i32.const 263) (i32.add (i32.const 48) (i32.load8_u (i32.const 60000))))
    (call $emit (i32.const 256) (i32.const 8))
    (i32.store8 (i32.const 128) (i32.const 0)) (i32.store8 (i32.const 136) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 128))
"#;

fn limits(memory_bytes: u64) -> Limits {
    // A memory that outgrows its reservation is moved, which takes time on a busy machine.
    Limits { memory_bytes, call_timeout: Duration::from_secs(60), ..Limits::default() }
}

#[test]
fn the_next_instance_finds_nothing_of_the_one_before() {
    for memory_bytes in [64 << 20, 65 << 20] {
        let mut bench = Bench::with(&guests::processor(SCRIBBLER), limits(memory_bytes), &[]);
        for _ in 0..100 {
            bench.accept("read").unwrap();
            assert_eq!(bench.made(), ["clean!10"]);
            assert!(bench.accept("write").is_err());
        }
        assert_eq!(bench.health.replaced.load(Ordering::Relaxed), 99);
    }
}

#[test]
fn a_guest_gets_all_of_its_limit_in_the_pool_and_beside_it() {
    for memory_bytes in [64 << 20, 72 << 20] {
        let mut bench = Bench::with(&guests::chaos(), limits(memory_bytes), &[]);
        let error = bench.accept("memory").err().unwrap();
        let refused = format!("the sandbox refused {} bytes of memory", memory_bytes + (1 << 16));
        assert!(error.message.contains(&refused), "{}", error.message);
    }
}

#[test]
fn guests_that_the_pool_has_no_room_for_run_as_well() {
    const GUESTS: usize = 4096 + 8;
    let compiled = guests::compile(&guests::processor(guests::PROCESSOR), false);
    let (setup, _) = guests::setup(compiled, guests::limits(), &[], "");
    let started: Vec<Instance> = (0..GUESTS).map(|_| Instance::start(&setup).unwrap()).collect();
    assert!(started.iter().all(|instance| instance.memory_bytes() == 1 << 16));
}
