//! Every role as a stage: the reactor does what the guest returns, and every copy is counted.
#![allow(clippy::unwrap_used)]

mod guests;

use guests::{Bench, FILTER, IDLE_SOURCE, METADATA_FILTER, POLLED_SOURCE, PROCESSOR, ROUTER, SINK, SOURCE};
use torvyn_sandbox::{CompiledComponent, Role, Sandbox};
use torvyn_stream::{Call, CopyReason, Pull, Stage, Step};

const LONG: &str = "a payload that is too long to lie inline";

#[test]
fn a_filter_reads_its_payload_in_one_copy_and_judges_it() {
    let mut bench = Bench::new(&guests::content_filter(FILTER));
    assert!(matches!(bench.accept(LONG), Ok(Step::Forward)));
    assert!(matches!(bench.accept("bad"), Ok(Step::Drop)));
    assert_eq!(bench.ledger.copies(CopyReason::HostToGuest), 2);
    assert_eq!(bench.ledger.copied_bytes(), (LONG.len() + 3) as u64);
}

#[test]
fn a_filter_that_looks_at_metadata_only_copies_nothing() {
    let mut bench = Bench::new(&guests::content_filter(METADATA_FILTER));
    assert!(matches!(bench.accept(LONG), Ok(Step::Forward)));
    assert_eq!(bench.ledger.copied_bytes(), 0);
}

#[test]
fn a_processor_reads_in_one_copy_and_writes_in_one() {
    let mut bench = Bench::new(&guests::processor(PROCESSOR));
    for text in [LONG, "short", ""] {
        assert!(matches!(bench.accept(text), Ok(Step::Done)));
        assert_eq!(bench.made(), [text]);
    }
    assert_eq!(bench.ledger.copies(CopyReason::HostToGuest), 3);
    assert_eq!(bench.ledger.copies(CopyReason::GuestToHost), 3);
}

#[test]
fn a_source_sends_what_it_has_and_ends() {
    let mut bench = Bench::new(&guests::source(SOURCE));
    for _ in 0..3 {
        let call = Call { ledger: &bench.ledger, now_ns: 0 };
        let Ok(Pull::Ready(made)) = bench.stage.pull(call) else { panic!("no element") };
        assert_eq!(made.payload.bytes(made.len), Some(&b"token"[..]));
    }
    let call = Call { ledger: &bench.ledger, now_ns: 0 };
    assert!(matches!(bench.stage.pull(call), Ok(Pull::End(_))));
    assert_eq!(bench.ledger.copies(CopyReason::GuestToHost), 3);
}

#[test]
fn a_polled_source_is_asked_again_after_a_while() {
    let mut bench = Bench::new(&guests::polled_source(POLLED_SOURCE));
    let ledger = torvyn_stream::Ledger::default();
    let mut pull = |now_ns| bench.stage.pull(Call { ledger: &ledger, now_ns }).unwrap();
    assert!(matches!(pull(5), Pull::Pending(Some(10_000_005))));
    assert!(matches!(pull(6), Pull::Ready(_)));
    assert!(matches!(pull(7), Pull::End(_)));
}

#[test]
fn a_source_that_stays_idle_is_asked_less_and_less_often() {
    let mut bench = Bench::new(&guests::polled_source(IDLE_SOURCE));
    let (mut now_ns, mut asked) = (0, 0);
    while now_ns < 60_000_000_000 {
        let call = Call { ledger: &bench.ledger, now_ns };
        let Ok(Pull::Pending(Some(again_ns))) = bench.stage.pull(call) else { panic!("not pending") };
        assert!((10_000_000..=1_000_000_000).contains(&(again_ns - now_ns)));
        (now_ns, asked) = (again_ns, asked + 1);
    }
    // Every 10 ms would be 6,000 times; at most one second apart is at least 60.
    assert!((60..100).contains(&asked), "{asked}");
}

#[test]
fn a_copy_inside_the_host_is_counted() {
    let mut bench = Bench::new(&guests::cloning_processor());
    for text in [LONG, "short"] {
        assert!(matches!(bench.accept(text), Ok(Step::Done)));
        assert_eq!(bench.made(), [text]);
    }
    assert_eq!(bench.ledger.copies(CopyReason::HostToHost), 2);
    assert_eq!(bench.ledger.copied_bytes(), (LONG.len() + 5) as u64);
}

#[test]
fn a_function_with_other_types_than_the_contract_is_refused_before_anything_runs() {
    let refused = CompiledComponent::new(&Sandbox::new(), &guests::wrong_filter(), None, false, None).err();
    let said = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        said.contains("torvyn:filtering/filter@0.1.0") && said.contains("`evaluate` has the wrong types"),
        "{said}"
    );
}

#[test]
fn a_sink_that_asks_for_a_pause_is_woken_by_time() {
    let mut bench = Bench::new(&guests::sink(SINK));
    assert!(matches!(bench.accept("go on"), Ok(Step::Done)));
    assert_eq!(bench.stage.due(), None);
    assert!(matches!(bench.accept("pause"), Ok(Step::Pause)));
    assert_eq!(bench.stage.due(), Some(10_000_000));
    let call = Call { ledger: &bench.ledger, now_ns: 10_000_000 };
    bench.stage.tick(call, &mut bench.out).unwrap();
    assert_eq!(bench.stage.due(), None);
}

#[test]
fn a_router_names_ports() {
    let mut bench = Bench::new(&guests::router(ROUTER));
    assert!(matches!(bench.accept("x"), Ok(Step::Route)));
    assert_eq!(std::mem::take(&mut bench.out.ports), [0]);
    assert!(matches!(bench.accept("both"), Ok(Step::Route)));
    assert_eq!(bench.out.ports, [0, 1]);
}

#[test]
fn a_component_says_what_it_is() {
    let compiled = guests::compile(&guests::processor(PROCESSOR), false);
    let found = &compiled.description;
    assert_eq!((found.role, found.world()), (Role::Processor, "managed-transform"));
    assert_eq!(found.imports, ["torvyn:streaming/types@0.1.0", "torvyn:streaming/buffer-allocator@0.1.0"]);
    assert!(found.capabilities().is_empty() && !found.may_wait(&Default::default()));
}

#[test]
fn an_instance_comes_back_to_its_seat_for_teardown() {
    let mut bench = Bench::new(&guests::content_filter(FILTER));
    assert!(bench.shared.lock().unwrap().is_none());
    bench.stage.close();
    assert!(bench.shared.lock().unwrap().is_some());
}
