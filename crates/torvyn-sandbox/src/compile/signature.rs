//! Signatures: whether a component's exported functions have the contract's types. Nothing runs.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentNamedList, InstancePre, Lift, Lower};

use crate::batch_contract::{BatchParams, Outputs, Pulled, Pushed, STATE, Verdicts, batch_interface};
use crate::compile::description::Description;
use crate::contract::{BackpressureSignal, LIFECYCLE, OutputElement, Polled, ProcessResult, Role, Verdict};
use crate::fault::SandboxError;
use crate::guest::calls::{Answer, Element};
use crate::host::Host;

/// The exported interfaces of a linked component, one at a time.
struct Interface<'a> {
    linked: &'a InstancePre<Host>,
    name: &'static str,
}

pub(crate) fn check(linked: &InstancePre<Host>, description: &Description) -> Result<(), SandboxError> {
    if description.has_lifecycle {
        let lifecycle = Interface { linked, name: LIFECYCLE };
        lifecycle.has::<(String,), Answer<()>>("init")?;
        lifecycle.has::<(), ()>("teardown")?;
    }
    check_optional(linked, description)?;
    check_role(&Interface { linked, name: description.role.interface() }, description.role)
}

fn check_optional(linked: &InstancePre<Host>, description: &Description) -> Result<(), SandboxError> {
    if description.has_state() {
        let state = Interface { linked, name: STATE };
        state.has::<(), Answer<Vec<u8>>>("snapshot")?;
        state.has::<(Vec<u8>,), Answer<()>>("restore")?;
    }
    let Some((name, function)) = batch_interface(description.role).filter(|_| description.has_batch()) else {
        return Ok(());
    };
    let interface = Interface { linked, name };
    match description.role {
        Role::Source | Role::PolledSource => interface.has::<(u32,), Answer<Pulled>>(function),
        Role::Filter | Role::Guard => interface.has::<BatchParams, Answer<Verdicts>>(function),
        Role::Sink => interface.has::<BatchParams, Answer<Pushed>>(function),
        _ => interface.has::<BatchParams, Answer<Outputs>>(function),
    }
}

fn check_role(interface: &Interface<'_>, role: Role) -> Result<(), SandboxError> {
    type Several = Answer<Vec<OutputElement>>;
    match role {
        Role::Source => interface.has::<(), Answer<Option<OutputElement>>>("pull")?,
        Role::PolledSource => interface.has::<(), Answer<Polled>>("pull")?,
        Role::Processor => interface.has::<Element, Answer<ProcessResult>>("process")?,
        Role::Expander => interface.has::<Element, Several>("process")?,
        Role::Filter => interface.has::<Element, Answer<bool>>("evaluate")?,
        Role::Guard => interface.has::<Element, Answer<Verdict>>("evaluate")?,
        Role::Router => interface.has::<Element, Answer<Vec<String>>>("route")?,
        Role::Aggregator => interface.has::<Element, Answer<Option<OutputElement>>>("ingest")?,
        Role::Sink => interface.has::<Element, Answer<BackpressureSignal>>("push")?,
    }
    match role {
        Role::Source | Role::PolledSource => {
            interface.has::<(BackpressureSignal,), ()>("notify-backpressure")
        }
        Role::Expander | Role::Aggregator => interface.has::<(), Several>("flush"),
        Role::Sink => interface.has::<(), Answer<()>>("complete"),
        Role::Processor | Role::Filter | Role::Guard | Role::Router => Ok(()),
    }
}

impl Interface<'_> {
    /// Whether the function exists with these parameters and this result.
    fn has<P, R>(&self, function: &str) -> Result<(), SandboxError>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        let wrong = |reason: String| SandboxError::Contract { interface: self.name.to_owned(), reason };
        let component = self.linked.component();
        let instance = component.get_export_index(None, self.name);
        match instance.and_then(|instance| component.get_export(Some(&instance), function)) {
            Some((ComponentItem::ComponentFunc(found), _)) => found
                .typecheck::<P, R>(&self.linked.instance_type())
                .map_err(|error| wrong(format!("`{function}` has the wrong types: {error:#}"))),
            _ => Err(wrong(format!("`{function}` is missing"))),
        }
    }
}
