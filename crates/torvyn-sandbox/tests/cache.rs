//! The cache loads what it compiled, and nothing that others put there.
#![allow(clippy::unwrap_used)]

mod guests;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use guests::FILTER;
use torvyn_sandbox::cache::Outcome;
use torvyn_sandbox::{CompiledComponent, Sandbox, SandboxError};

/// An empty folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("torvyn-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// The one compiled entry.
    fn entry(&self) -> PathBuf {
        let mut names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        names.find(|path| path.file_name().unwrap() != "key").unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path) -> Result<Outcome, SandboxError> {
    let wasm = guests::content_filter(FILTER);
    CompiledComponent::new(&Sandbox::new(), &wasm, Some(folder), false, None).map(|compiled| compiled.outcome)
}

#[test]
fn the_second_time_is_a_hit() {
    let folder = Folder::new("hit");
    assert_eq!(compile(&folder.0).unwrap(), Outcome::Miss);
    assert_eq!(compile(&folder.0).unwrap(), Outcome::Hit);
}

#[test]
fn an_entry_with_one_changed_byte_is_refused_and_replaced() {
    let folder = Folder::new("changed");
    compile(&folder.0).unwrap();
    let mut code = fs::read(folder.entry()).unwrap();
    let middle = code.len() / 2;
    code[middle] ^= 1;
    fs::write(folder.entry(), code).unwrap();
    assert_eq!(compile(&folder.0).unwrap(), Outcome::Refused);
    assert_eq!(compile(&folder.0).unwrap(), Outcome::Hit);
}

#[test]
fn an_entry_of_another_cache_is_refused() {
    let (mine, theirs) = (Folder::new("mine"), Folder::new("theirs"));
    compile(&mine.0).unwrap();
    compile(&theirs.0).unwrap();
    fs::copy(theirs.entry(), mine.entry()).unwrap();
    assert_eq!(compile(&mine.0).unwrap(), Outcome::Refused);
}

#[test]
fn an_entry_that_was_cut_off_is_refused() {
    let folder = Folder::new("cut");
    compile(&folder.0).unwrap();
    for length in [0, 31, 32, 1000] {
        let code = fs::read(folder.entry()).unwrap();
        fs::write(folder.entry(), &code[..length]).unwrap();
        assert_eq!(compile(&folder.0).unwrap(), Outcome::Refused, "{length}");
    }
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let folder = Folder::new("key");
    compile(&folder.0).unwrap();
    let key = folder.0.join("key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(compile(&folder.0), Err(SandboxError::Cache(_))));
}
