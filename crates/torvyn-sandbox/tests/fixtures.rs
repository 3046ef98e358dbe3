//! The Python tests use the guests of these tests, stored as files.
//!
//! `TORVYN_WRITE_FIXTURES=1 cargo test -p torvyn-sandbox --test fixtures` writes them again.
#![allow(clippy::unwrap_used)]

mod guests;

use std::path::Path;

fn are_kept(folder: &str, guests: impl IntoIterator<Item = (&'static str, Vec<u8>)>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    for (name, wasm) in guests {
        let file = folder.join(format!("{name}.wasm"));
        if std::env::var_os("TORVYN_WRITE_FIXTURES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &wasm).unwrap();
        }
        assert_eq!(std::fs::read(&file).unwrap(), wasm, "{name}");
    }
}

#[test]
fn the_files_are_what_the_texts_make() {
    are_kept(
        "sandbox/guests",
        [
            ("filter", guests::content_filter(guests::FILTER)),
            ("processor", guests::processor(guests::PROCESSOR)),
            ("source", guests::source(guests::SOURCE)),
            // A source that runs for a while, for the benchmark.
            ("stream", guests::source(&guests::SOURCE.replace("(i32.const 3)", "(i32.const 100000)"))),
            ("sink", guests::sink(guests::SINK)),
            ("idle", guests::polled_source(guests::IDLE_SOURCE)),
            ("wrong-signature", guests::wrong_filter()),
            ("chaos", guests::chaos()),
            ("printer", guests::filter_with(guests::PRINTING, guests::PRINT_IMPORTS, guests::PRINTS)),
            ("router", guests::router(guests::ROUTER)),
        ],
    );
}

#[test]
fn the_hostile_files_are_what_the_texts_make() {
    are_kept("faults/guests", guests::hostile::loops());
    are_kept("faults/guests", guests::hostile::bombs());
}
