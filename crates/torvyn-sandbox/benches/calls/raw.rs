//! The least that wasmtime can do: one typed call of the same guest, with a host that only serves `read-all`.

use wasmtime::component::{Component, ComponentType, Lift, Linker, Lower, Resource, ResourceType, TypedFunc};
use wasmtime::{Config, Engine, Store, StoreContextMut};

struct Buffer;
struct Context;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Meta {
    sequence: u64,
    #[component(name = "timestamp-ns")]
    timestamp_ns: u64,
    #[component(name = "content-type")]
    content_type: &'static str,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Element {
    meta: Meta,
    payload: Resource<Buffer>,
    context: Resource<Context>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
#[allow(dead_code)]
enum Failure {
    #[component(name = "invalid-input")]
    InvalidInput(String),
    #[component(name = "unavailable")]
    Unavailable(String),
    #[component(name = "internal")]
    Internal(String),
    #[component(name = "deadline-exceeded")]
    DeadlineExceeded,
    #[component(name = "fatal")]
    Fatal(String),
}

pub struct Raw {
    store: Store<Vec<u8>>,
    evaluate: TypedFunc<(Element,), (Result<bool, Failure>,)>,
}

impl Raw {
    pub fn new(wasm: &[u8], payload: &str) -> Self {
        let mut config = Config::new();
        config.concurrency_support(false);
        let engine = Engine::new(&config).unwrap();
        let mut linker: Linker<Vec<u8>> = Linker::new(&engine);
        let mut types = linker.instance("torvyn:streaming/types@0.1.0").unwrap();
        types.resource("buffer", ResourceType::host::<Buffer>(), |_, _| Ok(())).unwrap();
        types.resource("flow-context", ResourceType::host::<Context>(), |_, _| Ok(())).unwrap();
        types
            .func_wrap(
                "[method]buffer.read-all",
                |store: StoreContextMut<'_, Vec<u8>>, _: (Resource<Buffer>,)| Ok((store.data().clone(),)),
            )
            .unwrap();
        let component = Component::from_binary(&engine, wasm).unwrap();
        let mut store = Store::new(&engine, payload.as_bytes().to_vec());
        let guest = linker.instantiate(&mut store, &component).unwrap();
        let interface = component.get_export_index(None, "torvyn:filtering/filter@0.1.0").unwrap();
        let index = component.get_export_index(Some(&interface), "evaluate").unwrap();
        let evaluate = guest.get_typed_func(&mut store, index).unwrap();
        Self { store, evaluate }
    }

    pub fn call(&mut self) {
        let meta = Meta { sequence: 7, timestamp_ns: 1, content_type: "text/plain; charset=utf-8" };
        let element = Element { meta, payload: Resource::new_borrow(1), context: Resource::new_borrow(2) };
        let (answer,) = self.evaluate.call(&mut self.store, (element,)).unwrap();
        assert!(matches!(answer, Ok(true)));
    }
}
