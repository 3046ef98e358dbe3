//! Encodes core modules as components. A module's exports say which world it is for.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata, metadata};
use wit_parser::{CloneMaps, Resolve, Span, WorldId};

use crate::wit::{Contracts, interface_of, is_optional};

/// The prefix of the sections that contain a component's notes.
pub(crate) const NOTE_PREFIX: &str = "torvyn.";

/// Magic number and version.
const HEADER_BYTES: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not WebAssembly: {message}")]
    Malformed { message: String },
    #[error("the exports match no world: {}", interfaces.join(", "))]
    NoWorld { interfaces: Vec<String> },
    #[error("unknown world `{world}`")]
    WorldUnknown { world: String, known: Vec<String> },
    #[error("does not fit world `{world}`: {message}")]
    Unfit { world: String, message: String },
    #[error("the built-in contracts are wrong: {message}")]
    Contract { message: String },
}

impl Error {
    pub(crate) fn malformed(error: &dyn std::fmt::Display) -> Self {
        Self::Malformed { message: format!("{error:#}") }
    }
}

/// The component of a core module whose exports follow the canonical ABI of `world`.
///
/// The module may also import WASI preview 1 or 2; only what it imports stays in the component.
pub fn encode(core: &[u8], world: &str) -> Result<Vec<u8>, Error> {
    let mut contracts = Contracts::load()?;
    let mut optional = exported_interfaces(core)?;
    optional.retain(|interface| is_optional(interface));
    let id = contracts.extended(world, &optional)?;
    let unfit = |error: &dyn std::fmt::Display| Error::Unfit {
        world: world.to_owned(),
        message: format!("{error:#}"),
    };
    let mut module = without_debug(core)?;
    // A module made with wit-bindgen describes its own types and all its other imports.
    if !describes_itself(core)? {
        allow_wasi(&mut contracts.resolve, id).map_err(|error| unfit(&error))?;
        embed_component_metadata(&mut module, &contracts.resolve, id, StringEncoding::UTF8)
            .map_err(|error| unfit(&error))?;
    }
    // The encoder leaves out the adapter if nothing imports preview 1.
    ComponentEncoder::default()
        .validate(true)
        // The adapter keeps the memory it allocates; a guest's `cabi_realloc` gives memory for one call.
        .realloc_via_memory_grow(true)
        .module(&module)
        .map_err(|error| unfit(&error))?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        .map_err(|error| unfit(&error))?
        .encode()
        .map_err(|error| unfit(&error))
}

/// Lets the world import what the adapter provides of WASI, so that a module may import preview 2 itself.
fn allow_wasi(resolve: &mut Resolve, world: WorldId) -> anyhow::Result<()> {
    let (_, adapter) = metadata::decode(WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?;
    let remap = resolve.merge(adapter.resolve)?;
    let wasi = remap.map_world(adapter.world, Span::default())?;
    resolve.merge_worlds(wasi, world, &mut CloneMaps::default())
}

/// Whether the module has the sections in which wit-bindgen records the types of its imports and exports.
fn describes_itself(core: &[u8]) -> Result<bool, Error> {
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload.map_err(|error| Error::malformed(&error))?;
        if matches!(&payload, Payload::CustomSection(section) if section.name().starts_with("component-type"))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The module with function names and without its libraries' debug information, which is most of its bytes.
fn without_debug(core: &[u8]) -> Result<Vec<u8>, Error> {
    let mut kept = core.get(..HEADER_BYTES).unwrap_or(core).to_vec();
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload.map_err(|error| Error::malformed(&error))?;
        if matches!(&payload, Payload::CustomSection(section) if section.name().starts_with(".debug_")) {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            kept.push(id);
            push_length(&mut kept, range.len());
            kept.extend_from_slice(&core[range]);
        }
    }
    Ok(kept)
}

/// The component with one more note, such as `unit` and `tokens`.
pub fn annotate(component: &[u8], name: &str, text: &str) -> Vec<u8> {
    let mut section = Vec::new();
    push_length(&mut section, NOTE_PREFIX.len() + name.len());
    section.extend_from_slice(NOTE_PREFIX.as_bytes());
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(text.as_bytes());
    let mut noted = component.to_vec();
    noted.push(0);
    push_length(&mut noted, section.len());
    noted.extend_from_slice(&section);
    noted
}

/// LEB128, the encoding of lengths in WebAssembly.
fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// The name of the world whose interfaces a core module exports.
pub fn world_of(core: &[u8]) -> Result<String, Error> {
    let interfaces = exported_interfaces(core)?;
    let contracts = Contracts::load()?;
    match contracts.world_exporting(&interfaces) {
        Some(name) => Ok(name.to_owned()),
        None => Err(Error::NoWorld { interfaces }),
    }
}

/// The interfaces of a core module's exported functions.
fn exported_interfaces(core: &[u8]) -> Result<Vec<String>, Error> {
    let mut interfaces: Vec<String> = Vec::new();
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload.map_err(|error| Error::malformed(&error))?;
        let Payload::ExportSection(exports) = payload else {
            continue;
        };
        for export in exports {
            let export = export.map_err(|error| Error::malformed(&error))?;
            let Some(interface) = interface_of(export.name) else {
                continue;
            };
            if !interfaces.iter().any(|known| known == interface) {
                interfaces.push(interface.to_owned());
            }
        }
    }
    Ok(interfaces)
}
