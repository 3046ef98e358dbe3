//! Attributes and ends: the interface `torvyn:streaming/details`, which a guest may import.
//!
//! Attributes and ends are objects of the host language; a `Translator` converts them to text and back.

use std::sync::Arc;

use torvyn_stream::{Charge, End, Foreign};
use wasmtime::component::{ComponentType, Lift, Linker, Lower, Resource};
use wasmtime::{Result, StoreContextMut, bail};

use crate::contract::Buffer;
use crate::fault::clip;
use crate::host::Host;
use crate::host::imports::readable;
use crate::host::json_footprint::{attributes_bytes, json_bytes};

pub const DETAILS: &str = "torvyn:streaming/details@0.2.0";

/// The value is JSON.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(record)]
pub struct Attribute {
    pub name: String,
    pub value: String,
}

/// How a stream ended; `usage` is JSON.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(record)]
pub struct Ending {
    #[component(name = "finish-reason")]
    pub finish_reason: String,
    pub reason: Option<String>,
    #[component(name = "matched-stop")]
    pub matched_stop: Option<String>,
    pub usage: Option<String>,
}

/// Converts between the host language's objects and text. Called only for guests that import `details`.
pub trait Translator: Send + Sync {
    fn attributes(&self, companion: &Foreign) -> Vec<Attribute>;
    /// Returns the reason if they are invalid.
    fn companion(&self, attributes: &[Attribute]) -> std::result::Result<Foreign, String>;
    fn ending(&self, end: &End) -> Ending;
    fn end(&self, ending: &Ending) -> std::result::Result<End, String>;
}

/// What goes with the result of a call.
#[derive(Default)]
pub struct CallDetails {
    pub translator: Option<Arc<dyn Translator>>,
    /// How the stream ended, for a sink.
    ended: Option<Ending>,
    /// How the stream ends, from a source.
    ending: Option<(End, Charge)>,
    wait_ns: Option<u64>,
    wrong_answer: bool,
    failure: Option<String>,
}

impl CallDetails {
    pub fn tell_end(&mut self, end: &End) {
        self.ended = Some(self.translator.as_ref().map_or_else(|| plain(end), |it| it.ending(end)));
    }

    pub fn take_end(&mut self) -> Option<End> {
        self.ending.take().map(|(end, _)| end)
    }

    pub fn take_wait_ns(&mut self) -> Option<u64> {
        self.wait_ns.take()
    }

    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    pub fn take_wrong_answer(&mut self) -> bool {
        std::mem::take(&mut self.wrong_answer)
    }
}

fn plain(end: &End) -> Ending {
    Ending {
        finish_reason: end.finish_reason.clone(),
        reason: end.detail.clone(),
        matched_stop: None,
        usage: None,
    }
}

type Store<'a> = StoreContextMut<'a, Host>;

pub fn link(linker: &mut Linker<Host>) -> Result<()> {
    let mut details = linker.instance(DETAILS)?;
    details.func_wrap("attributes", |store: Store<'_>, (payload,): (Resource<Buffer>,)| {
        Ok((attributes(store, payload.rep())?,))
    })?;
    details.func_wrap(
        "set-attributes",
        |store: Store<'_>, (payload, attributes): (Resource<Buffer>, Vec<Attribute>)| {
            set_attributes(store, payload.rep(), &attributes)
        },
    )?;
    details.func_wrap("keep", |mut store: Store<'_>, (payload,): (Resource<Buffer>,)| {
        readable(&mut store, payload.rep())?.keep = true;
        Ok(())
    })?;
    details.func_wrap("ended", |store: Store<'_>, (): ()| {
        let ended = store.data().details.ended.clone();
        Ok((ended.unwrap_or_else(|| plain(&End::because("stop"))),))
    })?;
    details.func_wrap("set-ending", |store: Store<'_>, (ending,): (Ending,)| set_ending(store, &ending))?;
    details.func_wrap("ask-after", |mut store: Store<'_>, (wait_ns,): (u64,)| {
        store.data_mut().details.wait_ns = Some(wait_ns);
        Ok(())
    })?;
    details.func_wrap("failed", |mut store: Store<'_>, (reason,): (String,)| {
        store.data_mut().details.failure = Some(clip(reason));
        Ok(())
    })?;
    details.func_wrap("flow-name", |store: Store<'_>, (): ()| Ok((store.data().facts.flow_name.clone(),)))?;
    details.func_wrap("wrong-answer", |mut store: Store<'_>, (): ()| {
        store.data_mut().details.wrong_answer = true;
        Ok(())
    })
}

fn attributes(mut store: Store<'_>, handle: u32) -> Result<Vec<Attribute>> {
    let Some(companion) = readable(&mut store, handle)?.companion.take() else { return Ok(Vec::new()) };
    let found = store.data().details.translator.as_ref().map(|it| it.attributes(&companion));
    readable(&mut store, handle)?.companion = Some(companion);
    Ok(found.unwrap_or_default())
}

fn set_attributes(mut store: Store<'_>, handle: u32, attributes: &[Attribute]) -> Result<()> {
    let Some((companion, charge)) = store.data_mut().companion_of(attributes)? else { return Ok(()) };
    let found = readable(&mut store, handle)?;
    (found.companion, found.charge) = (Some(companion), Some(charge));
    Ok(())
}

impl Host {
    /// The object of an output's attributes, and its charge. `None` without a translator.
    pub fn companion_of(&mut self, attributes: &[Attribute]) -> Result<Option<(Foreign, Charge)>> {
        let Some(translator) = self.details.translator.clone() else { return Ok(None) };
        let charge = self.charge_for(attributes)?;
        match translator.companion(attributes) {
            Ok(companion) => Ok(Some((companion, charge))),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// Charges the guest for the objects of attributes until the last of them is dropped.
    fn charge_for(&mut self, attributes: &[Attribute]) -> Result<Charge> {
        let length: usize =
            attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len()).sum();
        if length > ATTRIBUTES_MAX {
            bail!("{length} bytes of attributes (the limit per element is {ATTRIBUTES_MAX})");
        }
        let pairs = attributes.iter().map(|attribute| (&*attribute.name, &*attribute.value));
        self.charge("attributes", attributes_bytes(pairs))
    }
}

/// The longest text of one element's attributes, or of an ending. Their objects take many times as much.
const ATTRIBUTES_MAX: usize = 1 << 20;

fn set_ending(mut store: Store<'_>, ending: &Ending) -> Result<()> {
    let texts = [Some(&ending.finish_reason), ending.reason.as_ref(), ending.matched_stop.as_ref()];
    let usage = ending.usage.as_deref().unwrap_or_default();
    let length = texts.into_iter().flatten().map(String::len).sum::<usize>() + usage.len();
    if length > ATTRIBUTES_MAX {
        bail!("an ending of {length} bytes (the limit is {ATTRIBUTES_MAX})");
    }
    let charge = store.data_mut().charge("ending", 4 * length as u64 + json_bytes(usage))?;
    let details = &mut store.data_mut().details;
    let end = match &details.translator {
        Some(translator) => translator.end(ending),
        None => Ok(End { detail: ending.reason.clone(), ..End::because(&ending.finish_reason) }),
    };
    match end {
        Ok(end) => details.ending = Some((end, charge)),
        Err(reason) => bail!("{reason}"),
    }
    Ok(())
}
