//! Guests for the tests: core modules as text, encoded as components of the worlds in `wit/`, and stages for them.
#![allow(clippy::unwrap_used, dead_code)]

pub mod hostile;
mod modules;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use torvyn_sandbox::{
    Capability, CompiledComponent, Denials, FlowInfo, Grants, GuestStage, Health, Instance, Limits, Line,
    Sandbox, Setup, SharedInstance,
};
use torvyn_stream::{Call, Element, Emission, Ledger, Outbox, Stage, StageError, Step};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

pub use modules::*;

fn wit(folder: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit").join(folder)
}

/// A component of a world, with `extra` WIT for the tests' own worlds.
pub fn encode(folder: &str, extra: Option<&str>, world: &str, body: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit(folder)).unwrap();
    if let Some(extra) = extra {
        package = resolve.push_str("extra.wit", extra).unwrap();
    }
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(format!("(module {body})")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// A filter by the name of its interface only.
pub fn wrong_filter() -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("wrong.wit", WRONG_FILTER).unwrap();
    let world = resolve.select_world(&[package], Some("guest")).unwrap();
    let evaluate =
        r#"(func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i32) (result i32) (i32.const 1))"#;
    let mut module = wat::parse_str(format!("(module {evaluate})")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

pub fn cloning_processor() -> Vec<u8> {
    let body = format!("{READS}{WRITES}{CLONES}{PRELUDE}{LIFECYCLE}{CLONING_PROCESSOR}");
    encode(".", None, "managed-transform", &body)
}

pub fn content_filter(body: &str) -> Vec<u8> {
    encode(".", None, "content-filter", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn router(body: &str) -> Vec<u8> {
    encode(".", None, "content-router", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn processor(body: &str) -> Vec<u8> {
    encode(".", None, "managed-transform", &format!("{READS}{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn source(body: &str) -> Vec<u8> {
    encode(".", None, "data-source", &format!("{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn polled_source(body: &str) -> Vec<u8> {
    encode("0.2", None, "polled-data-source", &format!("{WRITES}{PRELUDE}{LIFECYCLE}{EMIT}{body}"))
}

pub fn sink(body: &str) -> Vec<u8> {
    encode(".", None, "data-sink", &format!("{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

/// Has its own lifecycle.
pub fn chaos() -> Vec<u8> {
    encode(".", None, "managed-transform", &format!("{READS}{WRITES}{PRELUDE}{EMIT}{CHAOS}"))
}

/// A filter with more imports from its own WIT.
pub fn filter_with(extra: &str, imports: &str, body: &str) -> Vec<u8> {
    encode(".", Some(extra), "guest", &format!("{imports}{READS}{PRELUDE}{LIFECYCLE}{body}"))
}

pub fn limits() -> Limits {
    Limits { memory_bytes: 4 << 20, call_timeout: Duration::from_millis(50), ..Limits::default() }
}

/// A running guest with its surroundings.
pub struct Bench {
    pub stage: GuestStage,
    pub ledger: Ledger,
    pub out: Outbox,
    pub health: Arc<Health>,
    pub shared: SharedInstance,
    pub lines: Arc<Mutex<Vec<Line>>>,
    pub denials: Arc<Denials>,
}

pub fn compile(wasm: &[u8], counts_fuel: bool) -> Arc<CompiledComponent> {
    Arc::new(CompiledComponent::new(&Sandbox::new(), wasm, None, counts_fuel, None).unwrap())
}

pub fn setup(
    compiled: Arc<CompiledComponent>,
    limits: Limits,
    grants: &[&str],
    config: &str,
) -> (Setup, Arc<Mutex<Vec<Line>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let capabilities = grants.iter().map(|text| Capability::parse(text, Path::new("/")).unwrap()).collect();
    let setup = Setup {
        compiled,
        config: config.to_owned(),
        limits,
        grants: Arc::new(Grants { capabilities, seed: None }),
        denials: Arc::default(),
        facts: FlowInfo::default(),
        printer: Arc::new(move |line| seen.lock().unwrap().push(line)),
    };
    (setup, lines)
}

impl Bench {
    pub fn with(wasm: &[u8], limits: Limits, grants: &[&str]) -> Self {
        let (setup, lines) = setup(compile(wasm, limits.fuel.is_some()), limits, grants, "");
        let (shared, health, denials) =
            (SharedInstance::default(), Arc::new(Health::default()), setup.denials.clone());
        *shared.lock().unwrap() = Some(Instance::start(&setup).unwrap());
        let stage = GuestStage::new(setup, vec!["a".into(), "b".into()], shared.clone(), health.clone());
        Self { stage, ledger: Ledger::default(), out: Outbox::default(), health, shared, lines, denials }
    }

    pub fn new(wasm: &[u8]) -> Self {
        Self::with(wasm, limits(), &[])
    }

    pub fn accept(&mut self, text: &str) -> Result<Step, StageError> {
        let mut element = Element::made(Emission::text(text), 0, 7, 1);
        self.stage.accept(&mut element, Call { ledger: &self.ledger, now_ns: 0 }, &mut self.out)
    }

    pub fn call(&self) -> Call<'_> {
        Call { ledger: &self.ledger, now_ns: 0 }
    }

    /// The outputs since the last call, as text.
    pub fn made(&mut self) -> Vec<String> {
        let text =
            |made: Emission| String::from_utf8_lossy(made.payload.bytes(made.len).unwrap()).into_owned();
        self.out.made.drain(..).map(text).collect()
    }
}
