//! The WIT packages of `wit/`, built into the program: components are encoded and recognised without files.

use wit_parser::{PackageId, Resolve, SourceMap, WorldId};

use crate::wasm::Error;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../wit/", $path)))),*]
    };
}

/// Every file of `wit/` by its path, without the copies of packages.
pub const FILES: &[(&str, &str)] = files![
    "worlds.wit",
    "deps/torvyn-streaming/interfaces.wit",
    "deps/torvyn-streaming/types.wit",
    "deps/torvyn-streaming/worlds.wit",
    "deps/torvyn-filtering/filtering.wit",
    "deps/torvyn-aggregation/aggregation.wit",
    "deps/torvyn-capabilities/capabilities.wit",
    "0.2/worlds.wit",
    "0.2/deps/torvyn-streaming-0.2/streaming.wit",
    "0.2/deps/torvyn-filtering-0.2/filtering.wit",
    "0.3/worlds.wit",
    "0.3/deps/torvyn-streaming-0.3/streaming.wit",
];

/// The folders of `FILES` that are packages; each comes after those it needs.
const PACKAGES: [&str; 9] = [
    "deps/torvyn-streaming/",
    "deps/torvyn-filtering/",
    "deps/torvyn-aggregation/",
    "deps/torvyn-capabilities/",
    "0.2/deps/torvyn-streaming-0.2/",
    "0.2/deps/torvyn-filtering-0.2/",
    "0.3/deps/torvyn-streaming-0.3/",
    "",
    "0.2/",
];

/// All packages, and the ids of those that contain worlds.
pub struct Contracts {
    pub resolve: Resolve,
    homes: Vec<PackageId>,
}

impl Contracts {
    pub fn load() -> Result<Self, Error> {
        let mut resolve = Resolve::default();
        let mut homes = Vec::new();
        for folder in PACKAGES {
            let package = push(&mut resolve, folder)?;
            if !folder.contains("deps/") {
                homes.push(package);
            }
        }
        Ok(Self { resolve, homes })
    }

    /// The world with that plain name, such as `content-filter`.
    pub fn world(&self, name: &str) -> Result<WorldId, Error> {
        let named = self.worlds().find(|id| self.resolve.worlds[*id].name == name);
        named.ok_or_else(|| Error::WorldUnknown { world: name.to_owned(), known: self.names() })
    }

    /// A world with more exports: optional interfaces that a component has besides those of its world.
    pub fn extended(&mut self, name: &str, optional: &[String]) -> Result<WorldId, Error> {
        let world = self.world(name)?;
        if optional.is_empty() {
            return Ok(world);
        }
        let home = self.resolve.worlds[world].package.map(|id| &self.resolve.packages[id].name);
        let version = home.and_then(|home| home.version.as_ref()).map(ToString::to_string);
        let mut text = "package torvyn:guest;\nworld guest {\n".to_owned();
        text += &format!("include torvyn:components/{name}@{};\n", version.unwrap_or_default());
        text.extend(optional.iter().map(|interface| format!("export {interface};\n")));
        let mut map = SourceMap::new();
        map.push_str("guest.wit", text + "}\n");
        let group = map.parse().map_err(|(_, error)| wrong(&error))?;
        let package = self.resolve.push_group(group).map_err(|error| wrong(&error))?;
        let found = self.resolve.packages[package].worlds.values().next().copied();
        found.ok_or_else(|| wrong(&"it has no world"))
    }

    /// The name of the world that exports exactly these of our interfaces, whatever else is exported.
    pub fn world_exporting(&self, interfaces: &[String]) -> Option<&str> {
        let ours = |name: &&String| name.starts_with("torvyn:") && !is_optional(name);
        let count = interfaces.iter().filter(ours).count();
        let found = self.worlds().find(|id| {
            let exports = &self.resolve.worlds[*id].exports;
            exports.len() == count
                && exports.keys().all(|key| interfaces.contains(&self.resolve.name_world_key(key)))
        });
        found.map(|id| self.resolve.worlds[id].name.as_str())
    }

    /// The worlds' plain names.
    pub fn names(&self) -> Vec<String> {
        self.worlds().map(|id| self.resolve.worlds[id].name.clone()).collect()
    }

    fn worlds(&self) -> impl Iterator<Item = WorldId> + '_ {
        let packages = self.homes.iter().map(|id| &self.resolve.packages[*id]);
        packages.flat_map(|package| package.worlds.values().copied())
    }
}

fn push(resolve: &mut Resolve, folder: &str) -> Result<PackageId, Error> {
    let mut map = SourceMap::new();
    for (path, text) in FILES {
        let inside = path.strip_prefix(folder);
        if inside.is_some_and(|rest| !rest.contains('/')) {
            map.push_str(path, *text);
        }
    }
    let group = map.parse().map_err(|(_, error)| wrong(&error))?;
    resolve.push_group(group).map_err(|error| wrong(&error))
}

fn wrong(error: &dyn std::fmt::Display) -> Error {
    Error::Contract { message: format!("{error:#}") }
}

/// Whether components of any world may export the interface.
pub(crate) fn is_optional(interface: &str) -> bool {
    interface.starts_with("torvyn:streaming/") && interface.ends_with("@0.3.0")
}

/// `torvyn:filtering/filter@0.1.0` of `torvyn:filtering/filter@0.1.0#evaluate`.
pub(crate) fn interface_of(export: &str) -> Option<&str> {
    let (interface, _) = export.split_once('#')?;
    interface.contains(':').then_some(interface)
}
