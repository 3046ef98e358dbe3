//! Describes a component from its bytes: world, imports, exports, sizes. Nothing is compiled or run.

use wasmparser::{Encoding, Parser, Payload};
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{Resolve, WorldId, WorldItem, WorldKey};

use crate::wasm::{Error, NOTE_PREFIX};
use crate::wit::Contracts;

/// One import or export: an interface with its functions, or a single function without any.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub functions: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Description {
    /// The plain name of the built-in world with the same exports.
    pub world: Option<String>,
    pub imports: Vec<Item>,
    pub exports: Vec<Item>,
    /// The component's notes: the texts of its sections `torvyn.NAME`, by name.
    pub notes: Vec<(String, String)>,
    pub size_bytes: usize,
    pub sizes: Sizes,
}

/// Sums over all modules inside.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub modules: usize,
    pub functions: usize,
    pub code_bytes: usize,
    pub data_bytes: usize,
    /// Names, debug information and the like.
    pub custom_bytes: usize,
    /// The initial size of the memories.
    pub memory_bytes: u64,
}

/// Reads a component; a core module is an error.
pub fn describe(bytes: &[u8]) -> Result<Description, Error> {
    let (sizes, notes) = survey(bytes)?;
    let decoded = decode(bytes).map_err(|error| Error::malformed(&error))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(Error::Malformed { message: "it is a WIT package, not a component".to_owned() });
    };
    let exports = items(&resolve, world, false);
    let names: Vec<String> = exports.iter().map(|item| item.name.clone()).collect();
    Ok(Description {
        world: Contracts::load()?.world_exporting(&names).map(str::to_owned),
        imports: items(&resolve, world, true),
        exports,
        notes,
        size_bytes: bytes.len(),
        sizes,
    })
}

/// The notes of a component; nothing else is read.
pub fn notes(bytes: &[u8]) -> Result<Vec<(String, String)>, Error> {
    survey(bytes).map(|(_, notes)| notes)
}

fn items(resolve: &Resolve, world: WorldId, imported: bool) -> Vec<Item> {
    let world = &resolve.worlds[world];
    let all = if imported { &world.imports } else { &world.exports };
    all.iter().filter_map(|(key, item)| described(resolve, key, item)).collect()
}

fn described(resolve: &Resolve, key: &WorldKey, item: &WorldItem) -> Option<Item> {
    let functions = match item {
        WorldItem::Interface { id, .. } => resolve.interfaces[*id].functions.keys().cloned().collect(),
        WorldItem::Function(_) => Vec::new(),
        WorldItem::Type { .. } => return None,
    };
    Some(Item { name: resolve.name_world_key(key), functions })
}

fn survey(bytes: &[u8]) -> Result<(Sizes, Vec<(String, String)>), Error> {
    let mut sizes = Sizes::default();
    let mut notes = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| Error::malformed(&error))? {
            Payload::Version { encoding: Encoding::Module, range, .. } => {
                if range.start == 0 {
                    return Err(Error::Malformed {
                        message: "it is a core module, not a component".to_owned(),
                    });
                }
                sizes.modules += 1;
            }
            Payload::CodeSectionStart { count, size, .. } => {
                sizes.functions += count as usize;
                sizes.code_bytes += size as usize;
            }
            Payload::DataSection(section) => sizes.data_bytes += section.range().len(),
            Payload::CustomSection(section) => {
                sizes.custom_bytes += section.data().len();
                notes.extend(note(section.name(), section.data()));
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(|error| Error::malformed(&error))?;
                    let page = 1u64 << memory.page_size_log2.unwrap_or(16).min(16);
                    let bytes = memory.initial.saturating_mul(page);
                    sizes.memory_bytes = sizes.memory_bytes.saturating_add(bytes);
                }
            }
            _ => {}
        }
    }
    Ok((sizes, notes))
}

/// `unit` and `tokens` from a section `torvyn.unit` that contains `tokens`.
fn note(section: &str, data: &[u8]) -> Option<(String, String)> {
    let name = section.strip_prefix(NOTE_PREFIX)?;
    let text = str::from_utf8(data).ok()?;
    Some((name.to_owned(), text.to_owned()))
}
