//! What instantiating a component would create, counted before anything is compiled.
//!
//! A component may instantiate another one twice, which instantiates a third one twice: a few hundred bytes become
//! millions of instances, each with its own code and tables. One pass over the sections counts them, however many there
//! are.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef,
    Encoding, Instance, Parser, Payload,
};

use crate::fault::SandboxError;
use crate::host::limits::{CORE_INSTANCES, MEMORIES, TABLES};

/// Component instances. Tools that compose components create a few dozen.
const INSTANCES: usize = 1000;
/// Nested components.
const DEPTH: usize = 64;

/// What one instantiation creates. Sums saturate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    instances: u64,
    core_instances: u64,
    memories: u64,
    tables: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        for (sum, more) in [
            (&mut self.instances, other.instances),
            (&mut self.core_instances, other.core_instances),
            (&mut self.memories, other.memories),
            (&mut self.tables, other.tables),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A component or module that is being read. Imports count as nothing: the host's are small, and what a file's own
/// parts pass to each other is left to the compiler's limits.
#[derive(Default)]
struct Scope {
    counts: Counts,
    components: Vec<Counts>,
    modules: Vec<Counts>,
    is_module: bool,
}

/// Rejects a component that would create more than any guest may have.
pub fn check(wasm: &[u8]) -> Result<(), SandboxError> {
    let counts = count(wasm)?;
    for (what, made, most) in [
        ("component instances", counts.instances, INSTANCES),
        ("module instances", counts.core_instances, CORE_INSTANCES),
        ("memories", counts.memories, MEMORIES),
        ("tables", counts.tables, TABLES),
    ] {
        if made > most as u64 {
            return Err(SandboxError::TooComplex(format!(
                "it creates more than {most} {what} when it starts"
            )));
        }
    }
    Ok(())
}

fn count(wasm: &[u8]) -> Result<Counts, SandboxError> {
    let mut open: Vec<Scope> = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| invalid(&error))?;
        match payload {
            Payload::Version { encoding, .. } => {
                if open.len() >= DEPTH {
                    let reason = format!("its components are nested more than {DEPTH} deep");
                    return Err(SandboxError::TooComplex(reason));
                }
                open.push(Scope { is_module: encoding == Encoding::Module, ..Scope::default() });
            }
            Payload::End(_) => {
                let Some(closed) = open.pop() else { break };
                match open.last_mut() {
                    None => return Ok(closed.counts),
                    Some(outer) if closed.is_module => outer.modules.push(closed.counts),
                    Some(outer) => outer.components.push(closed.counts),
                }
            }
            other => section(&mut open, other).map_err(|error| invalid(&error))?,
        }
    }
    Err(SandboxError::Invalid("it ends too early".to_owned()))
}

fn invalid(error: &wasmparser::BinaryReaderError) -> SandboxError {
    SandboxError::Invalid(error.to_string())
}

type Read<T> = Result<T, wasmparser::BinaryReaderError>;

/// One section of the innermost component or module.
fn section(open: &mut [Scope], payload: Payload<'_>) -> Read<()> {
    if let Payload::ComponentAliasSection(aliases) = payload {
        for alias in aliases {
            alias_of(open, &alias?);
        }
        return Ok(());
    }
    let Some(scope) = open.last_mut() else { return Ok(()) };
    match payload {
        Payload::MemorySection(memories) => scope.counts.memories += u64::from(memories.count()),
        Payload::TableSection(tables) => scope.counts.tables += u64::from(tables.count()),
        Payload::InstanceSection(instances) => {
            for instance in instances {
                scope.instantiate_module(&instance?);
            }
        }
        Payload::ComponentInstanceSection(instances) => {
            for instance in instances {
                scope.instantiate_component(&instance?);
            }
        }
        Payload::ComponentImportSection(imports) => {
            for import in imports {
                scope.import(import?.ty);
            }
        }
        Payload::ComponentExportSection(exports) => {
            for export in exports {
                let export = export?;
                scope.name_again(export.kind, export.index);
            }
        }
        _ => {}
    }
    Ok(())
}

fn found(known: &[Counts], index: u32) -> Counts {
    known.get(index as usize).copied().unwrap_or_default()
}

impl Scope {
    fn instantiate_module(&mut self, instance: &Instance<'_>) {
        if let Instance::Instantiate { module_index, .. } = instance {
            let made = found(&self.modules, *module_index);
            self.counts.add(Counts { core_instances: 1, ..made });
        }
    }

    fn instantiate_component(&mut self, instance: &ComponentInstance<'_>) {
        if let ComponentInstance::Instantiate { component_index, .. } = instance {
            let made = found(&self.components, *component_index);
            self.counts.add(Counts { instances: made.instances.saturating_add(1), ..made });
        }
    }

    fn import(&mut self, kind: ComponentTypeRef) {
        match kind {
            ComponentTypeRef::Component(_) => self.components.push(Counts::default()),
            ComponentTypeRef::Module(_) => self.modules.push(Counts::default()),
            _ => {}
        }
    }

    /// An export adds one more name with its own index.
    fn name_again(&mut self, kind: ComponentExternalKind, index: u32) {
        match kind {
            ComponentExternalKind::Component => self.components.push(found(&self.components, index)),
            ComponentExternalKind::Module => self.modules.push(found(&self.modules, index)),
            _ => {}
        }
    }
}

fn alias_of(open: &mut [Scope], alias: &ComponentAlias<'_>) {
    let depth = open.len();
    let (kind, counts) = match *alias {
        ComponentAlias::InstanceExport { kind, .. } => (kind, Counts::default()),
        ComponentAlias::Outer { kind, count, index } => {
            let outer = depth.checked_sub(1 + count as usize).and_then(|at| open.get(at));
            let Some(outer) = outer else { return };
            match kind {
                ComponentOuterAliasKind::Component => {
                    (ComponentExternalKind::Component, found(&outer.components, index))
                }
                ComponentOuterAliasKind::CoreModule => {
                    (ComponentExternalKind::Module, found(&outer.modules, index))
                }
                _ => return,
            }
        }
        ComponentAlias::CoreInstanceExport { .. } => return,
    };
    let Some(scope) = open.last_mut() else { return };
    match kind {
        ComponentExternalKind::Component => scope.components.push(counts),
        ComponentExternalKind::Module => scope.modules.push(counts),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(wat: &str) -> Counts {
        count(&wat::parse_str(wat).unwrap_or_default()).unwrap_or_default()
    }

    /// Every level instantiates the one inside twice.
    fn nested(levels: usize) -> String {
        let innermost = "(component (core module $m (memory 1)) (core instance (instantiate $m)))";
        let wrap = |inner: String, _| {
            let inner = inner.replacen("(component", "(component $c", 1);
            format!("(component {inner} (instance (instantiate $c)) (instance (instantiate $c)))")
        };
        (0..levels).fold(innermost.to_owned(), wrap)
    }

    fn refusal(wat: &str) -> String {
        check(&wat::parse_str(wat).unwrap_or_default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn instances_of_instances_are_counted() {
        let counts = counted(&nested(10));
        assert_eq!((counts.instances, counts.core_instances, counts.memories), (2046, 1024, 1024));
    }

    #[test]
    fn numbers_beyond_counting_stop_at_the_largest() {
        assert_eq!(counted(&nested(62)).core_instances, 1 << 62);
        assert!(
            refusal(&nested(62)).ends_with("it creates more than 1000 component instances when it starts")
        );
        assert!(refusal(&nested(DEPTH)).ends_with("nested more than 64 deep"));
    }

    #[test]
    fn a_component_that_is_not_instantiated_counts_nothing() {
        let counts = counted("(component (component (core module $m) (core instance (instantiate $m))))");
        assert_eq!(counts, Counts::default());
    }

    #[test]
    fn other_names_of_a_component_or_module_count_like_the_first() {
        let counts = counted(
            r#"(component $root
                (core module $m (memory 1) (table 1 funcref))
                (component $c
                    (alias outer $root $m (core module $again))
                    (core instance (instantiate $again)))
                (export $d "d" (component $c))
                (component $e
                    (alias outer $root $d (component $f))
                    (instance (instantiate $f))
                    (instance (instantiate $f)))
                (instance (instantiate $e)))"#,
        );
        assert_eq!(counts, Counts { instances: 3, core_instances: 2, memories: 2, tables: 2 });
    }

    #[test]
    fn memories_and_tables_have_limits_of_their_own() {
        let five = "(core instance (instantiate $m))".repeat(5);
        let wat = |module: &str| format!("(component (core module $m {module}) {five})");
        assert!(refusal(&wat("(memory 1)")).ends_with("it creates more than 4 memories when it starts"));
        let tables = "(table 1 funcref)".repeat(7);
        assert!(refusal(&wat(&tables)).ends_with("it creates more than 32 tables when it starts"));
    }
}
