//! What a call costs: a filter that reads its payload, as a stage and as a raw typed call.
//!
//! `cargo bench -p torvyn-sandbox --bench calls` prints one JSON object of nanoseconds, medians of interleaved rounds.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/guests/mod.rs"]
mod guests;
mod raw;

use std::time::Instant;

use guests::{Bench, FILTER, METADATA_FILTER, PROCESSOR};
use torvyn_sandbox::Instance;
use torvyn_stream::{Call, Element, Emission, Stage};

const CALLS: u32 = 100_000;
const ROUNDS: usize = 9;
const PAYLOAD: &str = "hello world";

fn stage(wasm: &[u8]) -> impl FnMut() + use<> {
    let mut bench = Bench::new(wasm);
    let mut element = Element::made(Emission::text(PAYLOAD), 0, 7, 1);
    move || {
        let call = Call { ledger: &bench.ledger, now_ns: 0 };
        bench.stage.accept(&mut element, call, &mut bench.out).unwrap();
        bench.out.made.clear();
    }
}

fn nanoseconds(calls: u32, mut run: impl FnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..calls {
        run();
    }
    started.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let wasm = guests::content_filter(FILTER);
    let mut raw = raw::Raw::new(&wasm, PAYLOAD);
    let mut filter = stage(&wasm);
    let mut metadata = stage(&guests::content_filter(METADATA_FILTER));
    let mut processor = stage(&guests::processor(PROCESSOR));
    let (setup, _) = guests::setup(guests::compile(&wasm, false), guests::limits(), &[], "");
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        figures[0].push(nanoseconds(CALLS, || raw.call()));
        figures[1].push(nanoseconds(CALLS, &mut filter));
        figures[2].push(nanoseconds(CALLS, &mut metadata));
        figures[3].push(nanoseconds(CALLS, &mut processor));
        figures[4].push(nanoseconds(200, || drop(Instance::start(&setup).unwrap())));
    }
    let names = ["raw_filter", "filter", "metadata_filter", "processor", "instantiate"];
    let pairs: Vec<String> = names
        .iter()
        .zip(figures)
        .map(|(name, values)| format!("\"{name}\": {:.1}", median(values)))
        .collect();
    println!("{{{}}}", pairs.join(", "));
}
