//! Modules in text form become components that wasmparser accepts and that are recognised again.
#![allow(clippy::unwrap_used)]

use torvyn_tools::describe::describe;
use torvyn_tools::wasm::{Error, annotate, encode, world_of};
use torvyn_tools::wit::{Contracts, FILES};
use wasmparser::{Validator, WasmFeatures};

/// A filter that passes everything. Its result is at address 8: no error, true.
const FILTER: &str = r#"(module
    (import "torvyn:streaming/types@0.1.0" "[resource-drop]buffer" (func $drop_buffer (param i32)))
    (import "torvyn:streaming/types@0.1.0" "[resource-drop]flow-context" (func $drop_context (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 12) "\01")
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "torvyn:streaming/lifecycle@0.1.0#init") (param i32 i32) (result i32) i32.const 32)
    (func (export "torvyn:streaming/lifecycle@0.1.0#teardown"))
    (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
        (call $drop_buffer (local.get 4))
        (call $drop_context (local.get 5))
        i32.const 8)
)"#;

fn module(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn assert_valid(component: &[u8]) {
    Validator::new_with_features(WasmFeatures::default()).validate_all(component).unwrap();
}

#[test]
fn a_module_says_by_its_exports_which_world_it_is_for() {
    assert_eq!(world_of(&module(FILTER)).unwrap(), "content-filter");
}

#[test]
fn an_encoded_module_is_a_valid_component_of_its_world() {
    let component = encode(&module(FILTER), "content-filter").unwrap();

    assert_valid(&component);
    let found = describe(&component).unwrap();
    assert_eq!(found.world.as_deref(), Some("content-filter"));
    assert_eq!(found.size_bytes, component.len());
    assert_eq!(found.sizes.modules, 1);
    assert_eq!(found.sizes.memory_bytes, 65536);
    let imports: Vec<&str> = found.imports.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(imports, ["torvyn:streaming/types@0.1.0"]);
    let evaluate = &found.exports[1];
    assert_eq!(evaluate.name, "torvyn:filtering/filter@0.1.0");
    assert_eq!(evaluate.functions, ["evaluate"]);
}

#[test]
fn debug_information_does_not_enter_a_component_and_names_do() {
    let plain = module(FILTER);
    let marked = module(
        &FILTER.replace("(memory", r#"(@custom ".debug_info" "a secret path") (@custom "kept" "x") (memory"#),
    );

    let component = encode(&marked, "content-filter").unwrap();

    assert_valid(&component);
    let has = |word: &[u8]| component.windows(word.len()).any(|part| part == word);
    assert!(!has(b"a secret path"));
    assert!(has(b"drop_buffer"));
    assert!(plain.len() < component.len());
}

#[test]
fn a_module_that_prints_by_wasi_of_either_preview_is_encoded() {
    let streams = r#"(module (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
        (func (param i32 i32 i32 i32)))"#;
    let files = r#"(module (import "wasi_snapshot_preview1" "fd_write"
        (func (param i32 i32 i32 i32) (result i32)))"#;
    let [direct, adapted] = [streams, files].map(|head| {
        let text = FILTER.replacen("(module", head, 1);
        let component = encode(&module(&text), "content-filter").unwrap();
        assert_valid(&component);
        describe(&component).unwrap()
    });

    for found in [&direct, &adapted] {
        let mut names = found.imports.iter().map(|item| item.name.as_str());
        assert!(names.any(|name| name == "wasi:io/streams@0.2.12"));
    }
    // Preview 1 brings its adapter, preview 2 brings nothing.
    assert!(direct.sizes.modules < adapted.sizes.modules);
}

#[test]
fn notes_are_read_from_every_depth() {
    let said = FILTER.replacen("(memory", r#"(@custom "torvyn.unit" "tokens") (memory"#, 1);
    let component = encode(&module(&said), "content-filter").unwrap();

    let noted = annotate(&component, "ports", "short,long");

    assert_valid(&noted);
    let notes = describe(&noted).unwrap().notes;
    assert_eq!(
        notes,
        [("unit", "tokens"), ("ports", "short,long")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[test]
fn a_module_of_no_world_is_refused_with_what_it_exports() {
    let half = FILTER.replace("filtering/filter@0.1.0", "filtering/filter@9.9.9");

    let Err(Error::NoWorld { interfaces }) = world_of(&module(&half)) else {
        panic!("a world was found");
    };
    assert!(interfaces.contains(&"torvyn:filtering/filter@9.9.9".to_owned()));
}

#[test]
fn a_wrong_signature_is_refused() {
    let wrong = FILTER.replace("(param i64 i64 i32 i32 i32 i32)", "(param i64 i64 i32 i32 i32 i64)");
    let wrong = wrong.replace("(call $drop_context (local.get 5))", "");

    let refused = encode(&module(&wrong), "content-filter");

    assert!(matches!(refused, Err(Error::Unfit { .. })), "{refused:?}");
}

#[test]
fn bytes_that_are_no_component_are_refused() {
    for bytes in [&b""[..], b"\0asm", b"hello", &module("(module)")] {
        assert!(matches!(describe(bytes), Err(Error::Malformed { .. })));
    }
    assert!(matches!(encode(b"\0asm\x01\0\0\0\xff", "content-filter"), Err(Error::Malformed { .. })));
    assert!(matches!(encode(&module("(module)"), "content-filtre"), Err(Error::WorldUnknown { .. })));
}

#[test]
fn the_worlds_are_those_of_the_files() {
    let contracts = Contracts::load().unwrap();

    assert_eq!(
        contracts.names(),
        [
            "data-source",
            "transform",
            "managed-transform",
            "data-sink",
            "content-filter",
            "content-router",
            "stream-aggregator",
            "polled-data-source",
            "expanding-transform",
            "content-guard",
        ]
    );
}

#[test]
fn every_package_of_the_folder_is_built_in() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
    let mut seen = Vec::new();
    let mut waiting = vec![std::path::PathBuf::from(folder)];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|end| end == "wit") {
                seen.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }

    assert!(seen.len() >= FILES.len());
    for text in seen {
        assert!(FILES.iter().any(|(_, known)| *known == text), "not built in: {text}");
    }
}
