//! The WIT folders: each resolves alone, with the worlds that guests request by plain name.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use wit_parser::Resolve;

fn wit(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit").join(folder)
}

/// A world's exports, found as a guest's bindings find them: by folder and plain name.
fn exports(folder: &str, world: &str) -> Vec<String> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit(folder)).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect()
}

#[test]
fn every_world_resolves_from_the_root_by_its_plain_name() {
    let lifecycle = "torvyn:streaming/lifecycle@0.1.0";
    for (world, role) in [
        ("data-source", "torvyn:streaming/source@0.1.0"),
        ("managed-transform", "torvyn:streaming/processor@0.1.0"),
        ("data-sink", "torvyn:streaming/sink@0.1.0"),
        ("content-filter", "torvyn:filtering/filter@0.1.0"),
        ("content-router", "torvyn:filtering/router@0.1.0"),
        ("stream-aggregator", "torvyn:aggregation/aggregator@0.1.0"),
    ] {
        assert_eq!(exports(".", world), [lifecycle, role]);
    }
    assert_eq!(exports(".", "transform"), ["torvyn:streaming/processor@0.1.0"]);
}

#[test]
fn the_streaming_package_resolves_alone() {
    for (world, role) in [
        ("data-source", "torvyn:streaming/source@0.1.0"),
        ("managed-transform", "torvyn:streaming/processor@0.1.0"),
        ("data-sink", "torvyn:streaming/sink@0.1.0"),
    ] {
        assert_eq!(exports("torvyn-streaming", world), ["torvyn:streaming/lifecycle@0.1.0", role]);
    }
}

#[test]
fn version_0_2_adds_guards_and_polled_sources() {
    let lifecycle = "torvyn:streaming/lifecycle@0.1.0";
    assert_eq!(exports("0.2", "polled-data-source"), [lifecycle, "torvyn:streaming/polled-source@0.2.0"]);
    assert_eq!(exports("0.2", "content-guard"), [lifecycle, "torvyn:filtering/guard@0.2.0"]);
}

#[test]
fn version_0_3_adds_interfaces_that_any_component_may_export() {
    let names =
        ["state", "batch-source", "batch-processor", "batch-filter", "batch-aggregator", "batch-sink"];
    let expected: Vec<String> = names.iter().map(|name| format!("torvyn:streaming/{name}@0.3.0")).collect();
    assert_eq!(exports("0.3", "extensions"), expected);
}

/// Bindings name a package's module without its version only while there is one version.
#[test]
fn the_root_knows_one_version_of_each_package() {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit(".")).unwrap();
    let mut names: Vec<String> =
        resolve.package_names.keys().map(|name| format!("{}:{}", name.namespace, name.name)).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "torvyn:aggregation",
            "torvyn:capabilities",
            "torvyn:components",
            "torvyn:filtering",
            "torvyn:streaming"
        ]
    );
}

#[test]
fn the_copies_of_the_streaming_package_are_the_same() {
    for file in ["types.wit", "interfaces.wit", "worlds.wit"] {
        let first = fs::read_to_string(wit("torvyn-streaming").join(file)).unwrap();
        for copy in ["deps/torvyn-streaming", "0.2/deps/torvyn-streaming", "0.3/deps/torvyn-streaming"] {
            assert_eq!(first, fs::read_to_string(wit(copy).join(file)).unwrap(), "{copy}/{file}");
        }
    }
}
