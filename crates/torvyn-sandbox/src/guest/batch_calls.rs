//! The optional functions of a guest, looked up and type-checked once per instance: batches and state.

use wasmtime::Store;
use wasmtime::component::{ComponentNamedList, Instance as Guest, Lift, Lower, TypedFunc};

use crate::batch_contract::{BatchParams, Outputs, Pulled, Pushed, STATE, Verdicts, batch_interface};
use crate::compile::compiled_component::Exports;
use crate::contract::Role;
use crate::fault::SandboxError;
use crate::guest::calls::Answer;
use crate::host::Host;

#[derive(Clone, Copy)]
pub(crate) enum BatchCall {
    Pull(TypedFunc<(u32,), Answer<Pulled>>),
    Make(TypedFunc<BatchParams, Answer<Outputs>>),
    Evaluate(TypedFunc<BatchParams, Answer<Verdicts>>),
    Push(TypedFunc<BatchParams, Answer<Pushed>>),
}

/// `snapshot` and `restore`.
pub(crate) type StateCalls = (TypedFunc<(), Answer<Vec<u8>>>, TypedFunc<(Vec<u8>,), Answer<()>>);

#[derive(Clone, Copy, Default)]
pub(crate) struct OptionalCalls {
    pub batch: Option<BatchCall>,
    pub state: Option<StateCalls>,
}

impl OptionalCalls {
    pub fn of(
        guest: &Guest,
        store: &mut Store<Host>,
        role: Role,
        exports: &Exports,
    ) -> Result<Self, SandboxError> {
        let state = match &exports.state {
            Some([snapshot, restore]) => Some((
                find(guest, store, *snapshot, STATE, "snapshot")?,
                find(guest, store, *restore, STATE, "restore")?,
            )),
            None => None,
        };
        let batch = match (&exports.batch, batch_interface(role)) {
            (Some(index), Some((interface, name))) => Some(match role {
                Role::Source | Role::PolledSource => {
                    BatchCall::Pull(find(guest, store, *index, interface, name)?)
                }
                Role::Filter | Role::Guard => {
                    BatchCall::Evaluate(find(guest, store, *index, interface, name)?)
                }
                Role::Sink => BatchCall::Push(find(guest, store, *index, interface, name)?),
                _ => BatchCall::Make(find(guest, store, *index, interface, name)?),
            }),
            _ => None,
        };
        Ok(Self { batch, state })
    }
}

fn find<P, R>(
    guest: &Guest,
    store: &mut Store<Host>,
    index: wasmtime::component::ComponentExportIndex,
    interface: &str,
    name: &str,
) -> Result<TypedFunc<P, R>, SandboxError>
where
    P: ComponentNamedList + Lower,
    R: ComponentNamedList + Lift,
{
    guest.get_typed_func(store, index).map_err(|error| SandboxError::Contract {
        interface: interface.to_owned(),
        reason: format!("`{name}`: {error:#}"),
    })
}
