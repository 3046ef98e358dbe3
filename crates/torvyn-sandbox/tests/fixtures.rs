//! The guests that the Python tests use are those of these tests, kept as files.
//!
//! `TORVYN_WRITE_FIXTURES=1 cargo test -p torvyn-sandbox --test fixtures` makes them anew.
#![allow(clippy::unwrap_used)]

mod guests;

use std::path::Path;

#[test]
fn the_files_are_what_the_texts_make() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sandbox/guests");
    for (name, wasm) in [
        ("filter", guests::content_filter(guests::FILTER)),
        ("processor", guests::processor(guests::PROCESSOR)),
        ("source", guests::source(guests::SOURCE)),
        // A source that goes on for a while, for the benchmark.
        ("stream", guests::source(&guests::SOURCE.replace("(i32.const 3)", "(i32.const 100000)"))),
        ("sink", guests::sink(guests::SINK)),
        ("chaos", guests::chaos()),
        ("printer", guests::filter_with(guests::PRINTING, guests::PRINT_IMPORTS, guests::PRINTS)),
        ("router", guests::router(guests::ROUTER)),
    ] {
        let file = folder.join(format!("{name}.wasm"));
        if std::env::var_os("TORVYN_WRITE_FIXTURES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &wasm).unwrap();
        }
        assert_eq!(std::fs::read(&file).unwrap(), wasm, "{name}");
    }
}
