//! Compiled code on disk. An entry is loaded only if a keyed hash shows that this cache wrote it.
//!
//! Compiled code runs unchecked, so anyone who can write an entry could run any code. The key is in the cache folder,
//! readable only by its owner, and covers the wasm's digest, the engine's version and the code. This crate's unsafe
//! code is here and in `CompiledComponent::from_code`.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::Engine;
use wasmtime::component::Component;

const KEY_BYTES: usize = 32;
const SEAL_BYTES: usize = 32;
/// Compiled code is about twice as large as the wasm; larger files were not written here.
const ENTRY_BASE: u64 = 64 << 20;
const ENTRY_PER_BYTE: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Loaded from the cache.
    Hit,
    /// Compiled now.
    Miss,
    /// An entry existed but was broken or not ours: compiled now, and the entry replaced.
    Refused,
}

pub struct Cache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
}

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

impl Cache {
    /// Opens the folder, or creates it with a new key.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mode = fs::metadata(folder)?.mode();
        // Where other users may rename our files, only the sticky bit prevents it.
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(denied(format!("`{}` is writable by everybody", folder.display())));
        }
        let path = folder.join("key");
        let key = match read_key(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(folder, &path)?,
            read => read?,
        };
        Ok(Self { folder: folder.to_owned(), key })
    }

    /// The path of the entry for this wasm and this engine.
    pub fn entry(&self, engine: &Engine, wasm: &[u8]) -> PathBuf {
        self.file(&subject(engine, wasm))
    }

    fn file(&self, subject: &Subject) -> PathBuf {
        self.folder.join(blake3::hash(subject).to_hex().as_str())
    }

    /// The entry's content. Anything but a plain file of plausible size is rejected.
    fn read(&self, subject: &Subject, wasm: &[u8]) -> io::Result<Vec<u8>> {
        let path = self.file(subject);
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        let (facts, most) = (file.metadata()?, ENTRY_BASE + ENTRY_PER_BYTE * wasm.len() as u64);
        if !facts.is_file() || facts.len() > most {
            return Err(denied(format!("`{}` is not a cache entry", path.display())));
        }
        let mut entry = Vec::with_capacity(facts.len() as usize);
        file.read_to_end(&mut entry)?;
        Ok(entry)
    }

    /// The compiled code of an entry, if this cache wrote it.
    fn code<'a>(&self, subject: &Subject, entry: &'a [u8]) -> Option<&'a [u8]> {
        let (seal, code) = entry.split_at_checked(SEAL_BYTES)?;
        let seal = <[u8; SEAL_BYTES]>::try_from(seal).ok()?;
        // This comparison takes the same time wherever the difference is.
        (self.seal(subject, code) == blake3::Hash::from_bytes(seal)).then_some(code)
    }

    /// The compiled component; `None` when there is no entry that can be trusted.
    pub fn load(&self, engine: &Engine, wasm: &[u8]) -> (Option<Component>, Outcome) {
        let subject = subject(engine, wasm);
        let entry = match self.read(&subject, wasm) {
            Ok(entry) => entry,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (None, Outcome::Miss),
            Err(_) => return (None, Outcome::Refused),
        };
        let Some(code) = self.code(&subject, &entry) else { return (None, Outcome::Refused) };
        // SAFETY: the seal says that these bytes came from `Component::serialize` of an engine of this version.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => (Some(component), Outcome::Hit),
            Err(_) => (None, Outcome::Refused),
        }
    }

    /// Writes the entry completely or not at all.
    pub fn store(&self, engine: &Engine, wasm: &[u8], code: &[u8]) -> io::Result<()> {
        let subject = subject(engine, wasm);
        let serial = TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("new-{}-{serial}", std::process::id()));
        let mut file = private(&temporary)?;
        let written = file
            .write_all(self.seal(&subject, code).as_bytes())
            .and_then(|()| file.write_all(code))
            .and_then(|()| fs::rename(&temporary, self.file(&subject)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn seal(&self, subject: &Subject, code: &[u8]) -> blake3::Hash {
        let mut seal = blake3::Hasher::new_keyed(&self.key);
        seal.update(subject);
        seal.update(code);
        seal.finalize()
    }
}

/// The same compiled code for another engine with the same settings.
pub(crate) fn moved(component: &Component, engine: &Engine) -> wasmtime::Result<Component> {
    let code = component.serialize()?;
    // SAFETY: these bytes came from `Component::serialize`, just now.
    unsafe { Component::deserialize(engine, code) }
}

/// Identifies an entry: the wasm and the engine. Hashed once, because a Python guest has 18 MB.
type Subject = [u8; 64];

fn subject(engine: &Engine, wasm: &[u8]) -> Subject {
    let mut subject = [0; 64];
    subject[..32].copy_from_slice(blake3::hash(wasm).as_bytes());
    subject[32..].copy_from_slice(&version(engine));
    subject
}

/// Everything that compiled code depends on: wasmtime's version, its settings, the machine.
pub(crate) fn version(engine: &Engine) -> [u8; 32] {
    struct Digest(blake3::Hasher);
    impl Hasher for Digest {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut digest = Digest(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut digest);
    *digest.0.finalize().as_bytes()
}

fn denied(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn read_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.mode() & 0o077 != 0 {
        let message = format!("`{}` is readable by users other than its owner", path.display());
        return Err(denied(message));
    }
    // SAFETY: it takes nothing and cannot fail.
    if facts.uid() != unsafe { libc::geteuid() } {
        return Err(denied(format!("`{}` belongs to another user", path.display())));
    }
    if facts.len() != KEY_BYTES as u64 {
        let message = format!("`{}` holds {} bytes, not {KEY_BYTES}", path.display(), facts.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key)?;
    Ok(key)
}

/// Creates a key, unless another process did so first: then theirs is used.
fn make_key(folder: &Path, path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let serial = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("key-{}-{serial}", std::process::id()));
    let linked = private(&temporary)?.write_all(&key).and_then(|()| fs::hard_link(&temporary, path));
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read_key(path),
    }
}
