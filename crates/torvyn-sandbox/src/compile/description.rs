//! The description of a component: its role, its world, its imports and exports. Nothing runs.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::batch_contract::{STATE, batch_interface};
use crate::capabilities::grants::Grants;
use crate::contract::{LIFECYCLE, Role};
use crate::fault::SandboxError;
use crate::host::details::DETAILS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub role: Role,
    pub has_lifecycle: bool,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// Which import needs which capability.
const SERVES: [(&str, &str); 10] = [
    ("wasi:cli/stdout@", "stdio:stdout"),
    ("wasi:cli/stderr@", "stdio:stderr"),
    ("wasi:cli/environment@", "environment:read"),
    ("wasi:filesystem/preopens@", "filesystem"),
    ("wasi:sockets/tcp-create-socket@", "network:tcp-connect"),
    ("wasi:http/outgoing-handler@", "network:http-outgoing"),
    ("wasi:clocks/wall-clock@", "clock:wall"),
    ("wasi:clocks/monotonic-clock@", "clock:monotonic"),
    ("wasi:random/random@", "random:crypto"),
    ("wasi:random/insecure@", "random:insecure"),
];

impl Description {
    pub fn of(engine: &Engine, component: &Component, wanted: Option<&str>) -> Result<Self, SandboxError> {
        let kind = component.component_type();
        let exports: Vec<String> = kind.exports(engine).map(|(name, _)| name.to_owned()).collect();
        let imports = kind
            .imports(engine)
            .filter(|(_, item)| !matches!(item.ty, ComponentItem::Type(_)))
            .map(|(name, _)| name.to_owned())
            .collect();
        let roles: Vec<Role> = Role::ALL
            .into_iter()
            .filter(|role| exports.iter().any(|name| name == role.interface()))
            .filter(|role| wanted.is_none_or(|wanted| wanted == role.name()))
            .collect();
        let role = match roles[..] {
            [role] => role,
            [] => return Err(SandboxError::NoRole { exports: listed(&exports) }),
            _ => {
                let names: Vec<String> = roles.iter().map(|role| role.interface().to_owned()).collect();
                return Err(SandboxError::SeveralRoles { roles: listed(&names) });
            }
        };
        let has_lifecycle = exports.iter().any(|name| name == LIFECYCLE);
        Ok(Self { role, has_lifecycle, imports, exports })
    }

    pub fn world(&self) -> &'static str {
        self.role.world(self.has_lifecycle)
    }

    /// Whether it exports the batch function of its role.
    pub fn has_batch(&self) -> bool {
        batch_interface(self.role).is_some_and(|(interface, _)| self.exports.iter().any(|it| it == interface))
    }

    /// Whether it exports `snapshot` and `restore`.
    pub fn has_state(&self) -> bool {
        self.exports.iter().any(|name| name == STATE)
    }

    pub fn imports_wasi(&self) -> bool {
        self.imports("wasi:")
    }

    /// Whether a call may wait in the host, where epochs do not reach it: when it sleeps, or uses a granted resource.
    pub fn may_wait(&self, grants: &Grants) -> bool {
        let sleeps = self.imports("wasi:io/poll@") && self.imports("wasi:clocks/monotonic-clock@");
        sleeps
            || (grants.open_files() && self.imports("wasi:filesystem/"))
            || (grants.open_sockets() && self.imports("wasi:sockets/"))
            || (grants.open_http() && self.imports("wasi:http/"))
    }

    /// Whether it uses attributes and ends, which are objects of the host language.
    pub fn imports_details(&self) -> bool {
        self.imports(DETAILS)
    }

    fn imports(&self, prefix: &str) -> bool {
        self.imports.iter().any(|name| name.starts_with(prefix))
    }

    /// The capabilities that the imports need.
    pub fn capabilities(&self) -> Vec<&'static str> {
        SERVES.into_iter().filter(|(prefix, _)| self.imports(prefix)).map(|(_, name)| name).collect()
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
