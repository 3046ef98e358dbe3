//! Descriptors: how many files, folders and connections a guest may have open, and what it may not open at all.
//!
//! Every guest has its own limit, and no guest gets a descriptor while the process has few left, so the host can always
//! open what it needs. Pipes, devices and sockets in a granted folder are refused: opening or reading one may block a
//! host thread for ever, and no deadline can end that.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::process::{Resource as Limited, getrlimit};
use wasmtime::component::{LinkerInstance, Resource, ResourceTable};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, TcpSocket};

use crate::capabilities::denial::Kind;
use crate::capabilities::wasi_audit::permitted;
use crate::host::Host;

type Store<'a> = StoreContextMut<'a, Host>;

/// What one guest may have: open files, folders, sockets, lookups, and the streams made from them.
pub const DESCRIPTORS_MAX: usize = 64;

/// The share of the process's descriptors that guests may not use.
const RESERVED_DIVISOR: u64 = 4;

/// Counts the guest's requests that have their own connection; each holds a clone.
pub type Connections = Arc<()>;

/// Whether one more HTTP connection may be opened.
pub fn may_connect(connections: &Connections) -> bool {
    Arc::strong_count(connections) <= DESCRIPTORS_MAX && can_spare_descriptor()
}

/// Whether the guest may open one more descriptor. A refusal is noted.
pub fn may_open(host: &mut Host, request: &str) -> bool {
    let may = open_count(host.ctx().table) < DESCRIPTORS_MAX && can_spare_descriptor();
    if !may {
        host.denials.note(Kind::Descriptor, || request.to_owned());
    }
    may
}

/// The entries that keep a descriptor of the process open. A file that is read through a stream counts twice.
fn open_count(table: &mut ResourceTable) -> usize {
    let is_open = |entry: &&mut (dyn std::any::Any + Send)| {
        entry.is::<Descriptor>()
            || entry.is::<TcpSocket>()
            || entry.is::<DynInputStream>()
            || entry.is::<DynOutputStream>()
            || entry.is::<ResolveAddressStream>()
    };
    table.iter_mut().filter(is_open).count()
}

/// Whether the process can spare a descriptor: the lowest free one shows how many are in use.
fn can_spare_descriptor() -> bool {
    let Some(limit) = getrlimit(Limited::Nofile).current else { return true };
    let probe = File::open("/dev/null").map(|file| file.as_raw_fd());
    probe.is_ok_and(|lowest| (lowest as u64) < limit - limit / RESERVED_DIVISOR)
}

type OpenAt = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);

pub fn link(files: &mut LinkerInstance<'_, Host>) -> Result<()> {
    files.func_wrap_async("[method]descriptor.open-at", |mut store: Store<'_>, params: OpenAt| {
        Box::new(async move { Ok((open_at(&mut store, params).await?,)) })
    })
}

async fn open_at(
    store: &mut Store<'_>,
    (folder, flags, path, open, rights): OpenAt,
) -> Result<std::result::Result<Resource<Descriptor>, ErrorCode>> {
    let kind = opening(open, rights);
    if !may_open(store.data_mut(), &path) {
        return Ok(Err(ErrorCode::Quota));
    }
    let looked_at = Resource::new_borrow(folder.rep());
    let found = store.data_mut().filesystem().stat_at(looked_at, flags, path.clone()).await;
    if found.is_ok_and(|facts| may_wait(facts.type_)) {
        store.data().denials.note(kind, || path);
        return Ok(Err(ErrorCode::NotPermitted));
    }
    let request = path.clone();
    let answer = store.data_mut().filesystem().open_at(folder, flags, path, open, rights).await;
    permitted(store, answer, kind, request)
}

fn may_wait(kind: DescriptorType) -> bool {
    !matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

fn opening(open: OpenFlags, rights: DescriptorFlags) -> Kind {
    let writes = open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
        || rights.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY);
    if writes { Kind::Write } else { Kind::Read }
}
