//! The guest functions that the host calls, looked up and type-checked once per instance.

use wasmtime::Store;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance as Guest, Lift, Lower, TypedFunc,
};

use crate::compile::compiled_component::{Exports, functions};
use crate::contract::{
    BackpressureSignal, LIFECYCLE, OutputElement, Polled, ProcessError, ProcessResult, Role, StreamElement,
    Verdict,
};
use crate::fault::SandboxError;
use crate::host::Host;

pub(crate) type Answer<T> = (Result<T, ProcessError>,);
pub(crate) type Element = (StreamElement,);

/// The role's functions, typed.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    Source {
        pull: TypedFunc<(), Answer<Option<OutputElement>>>,
        notify: TypedFunc<(BackpressureSignal,), ()>,
    },
    PolledSource {
        pull: TypedFunc<(), Answer<Polled>>,
        notify: TypedFunc<(BackpressureSignal,), ()>,
    },
    Processor {
        process: TypedFunc<Element, Answer<ProcessResult>>,
    },
    Expander {
        process: TypedFunc<Element, Answer<Vec<OutputElement>>>,
        flush: TypedFunc<(), Answer<Vec<OutputElement>>>,
    },
    Filter {
        evaluate: TypedFunc<Element, Answer<bool>>,
    },
    Guard {
        evaluate: TypedFunc<Element, Answer<Verdict>>,
    },
    Router {
        route: TypedFunc<Element, Answer<Vec<String>>>,
    },
    Aggregator {
        ingest: TypedFunc<Element, Answer<Option<OutputElement>>>,
        flush: TypedFunc<(), Answer<Vec<OutputElement>>>,
    },
    Sink {
        push: TypedFunc<Element, Answer<BackpressureSignal>>,
        complete: TypedFunc<(), Answer<()>>,
    },
}

/// `init` and `teardown`.
pub(crate) type Lifecycle = (TypedFunc<(String,), Answer<()>>, TypedFunc<(), ()>);

/// Finds functions in a guest and checks their types.
struct Finder<'a> {
    guest: &'a Guest,
    interface: &'static str,
    names: &'static [&'static str],
    indices: &'a [ComponentExportIndex],
}

impl Finder<'_> {
    fn get<P, R>(&self, store: &mut Store<Host>, at: usize) -> Result<TypedFunc<P, R>, SandboxError>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        self.guest.get_typed_func(store, self.indices[at]).map_err(|error| SandboxError::Contract {
            interface: self.interface.to_owned(),
            reason: format!("`{}`: {error:#}", self.names[at]),
        })
    }
}

pub(crate) fn lifecycle(
    guest: &Guest,
    store: &mut Store<Host>,
    exports: &Exports,
) -> Result<Option<Lifecycle>, SandboxError> {
    let Some(indices) = &exports.lifecycle else { return Ok(None) };
    let finder = Finder { guest, interface: LIFECYCLE, names: &["init", "teardown"], indices };
    Ok(Some((finder.get(store, 0)?, finder.get(store, 1)?)))
}

impl Calls {
    pub fn of(
        guest: &Guest,
        store: &mut Store<Host>,
        role: Role,
        exports: &Exports,
    ) -> Result<Self, SandboxError> {
        let (interface, names) = (role.interface(), functions(role));
        let finder = Finder { guest, interface, names, indices: &exports.role };
        Ok(match role {
            Role::Source => Self::Source { pull: finder.get(store, 0)?, notify: finder.get(store, 1)? },
            Role::PolledSource => {
                Self::PolledSource { pull: finder.get(store, 0)?, notify: finder.get(store, 1)? }
            }
            Role::Processor => Self::Processor { process: finder.get(store, 0)? },
            Role::Expander => Self::Expander { process: finder.get(store, 0)?, flush: finder.get(store, 1)? },
            Role::Filter => Self::Filter { evaluate: finder.get(store, 0)? },
            Role::Guard => Self::Guard { evaluate: finder.get(store, 0)? },
            Role::Router => Self::Router { route: finder.get(store, 0)? },
            Role::Aggregator => {
                Self::Aggregator { ingest: finder.get(store, 0)?, flush: finder.get(store, 1)? }
            }
            Role::Sink => Self::Sink { push: finder.get(store, 0)?, complete: finder.get(store, 1)? },
        })
    }
}
