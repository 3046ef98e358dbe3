//! Wrappers around WASI functions that may be denied.
//!
//! They call the library and note what it, or they, denied. File functions need no wrapper without a grant: without a
//! folder to start from, a guest cannot name a path.

use wasmtime::component::{Linker, LinkerInstance, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self as files, Descriptor, ErrorCode, HostDescriptor, NewTimestamp, PathFlags,
};
use wasmtime_wasi::p2::bindings::random::insecure::Host as _;
use wasmtime_wasi::p2::bindings::random::random::Host as _;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{
    Host as _, HostResolveAddressStream, ResolveAddressStream,
};
use wasmtime_wasi::p2::bindings::sockets::network::{
    ErrorCode as SocketErrorCode, Host as _, IpAddress, IpAddressFamily, Network,
};
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket::Host as _;
use wasmtime_wasi::p2::{DynPollable, FsResult, SocketResult, TcpSocket, UdpSocket};
use wasmtime_wasi::sockets::WasiSocketsView;

use crate::capabilities::capability::Capability;
use crate::capabilities::denial::Kind;
use crate::capabilities::descriptors;
use crate::host::Host;

type Store<'a> = StoreContextMut<'a, Host>;

/// The WASI version of the library; guests of earlier versions are linked to it.
macro_rules! wasi {
    ($name:literal) => {
        concat!("wasi:", $name, "@0.2.12")
    };
}

pub fn link(linker: &mut Linker<Host>, waits: bool) -> Result<()> {
    linker.allow_shadowing(true);
    link_random(linker)?;
    link_clock(linker)?;
    link_sockets(linker)?;
    if waits {
        link_files(&mut linker.instance(wasi!("filesystem/types"))?)?;
    }
    linker.allow_shadowing(false);
    Ok(())
}

fn link_random(linker: &mut Linker<Host>) -> Result<()> {
    let mut random = linker.instance(wasi!("random/random"))?;
    random.func_wrap("get-random-bytes", |mut store: Store<'_>, (count,): (u64,)| {
        let strong = may_have_strong(&store);
        let random = store.data_mut().ctx().ctx.random();
        let bytes =
            if strong { random.get_random_bytes(count) } else { random.get_insecure_random_bytes(count) };
        Ok((bytes?,))
    })?;
    random.func_wrap("get-random-u64", |mut store: Store<'_>, (): ()| {
        let strong = may_have_strong(&store);
        let random = store.data_mut().ctx().ctx.random();
        Ok((if strong { random.get_random_u64()? } else { random.get_insecure_random_u64()? },))
    })
}

/// These functions cannot report a denial, and runtimes call them before a guest's own code, to seed hash tables. So
/// without the grant the numbers are those of `random:insecure`, and the denial is noted.
fn may_have_strong(store: &Store<'_>) -> bool {
    let host = store.data();
    let granted = host.grants.covers(&Capability::RandomCrypto);
    if !granted {
        host.denials.note(Kind::Random, String::new);
    }
    granted
}

/// A guest with a seed sleeps without waiting: its own clock advances.
fn link_clock(linker: &mut Linker<Host>) -> Result<()> {
    let mut clock = linker.instance(wasi!("clocks/monotonic-clock"))?;
    clock.func_wrap("subscribe-duration", |mut store: Store<'_>, (duration_ns,): (u64,)| {
        if let Some(clock) = &store.data().clock {
            clock.sleep(duration_ns);
            return Ok((sleep(&mut store, 0)?,));
        }
        Ok((sleep(&mut store, duration_ns)?,))
    })?;
    clock.func_wrap("subscribe-instant", |mut store: Store<'_>, (instant_ns,): (u64,)| {
        if let Some(clock) = &store.data().clock {
            clock.sleep_until(instant_ns);
            return Ok((sleep(&mut store, 0)?,));
        }
        Ok((monotonic_clock::Host::subscribe_instant(&mut store.data_mut().clocks(), instant_ns)?,))
    })
}

fn sleep(store: &mut Store<'_>, duration_ns: u64) -> Result<Resource<DynPollable>> {
    monotonic_clock::Host::subscribe_duration(&mut store.data_mut().clocks(), duration_ns)
}

fn link_sockets(linker: &mut Linker<Host>) -> Result<()> {
    linker.instance(wasi!("sockets/tcp-create-socket"))?.func_wrap(
        "create-tcp-socket",
        |mut store: Store<'_>, (family,): (IpAddressFamily,)| {
            if store.data().tcp.is_empty() {
                return Ok((refuse::<Resource<TcpSocket>>(&store, Kind::Connect, String::new),));
            }
            if !descriptors::may_open(store.data_mut(), "tcp") {
                return Ok((Err(SocketErrorCode::NewSocketLimit),));
            }
            let made = store.data_mut().sockets().create_tcp_socket(family);
            Ok((plain(&mut store, made)?,))
        },
    )?;
    // A socket uses a host resource before its first use, so it is denied here.
    linker.instance(wasi!("sockets/udp-create-socket"))?.func_wrap(
        "create-udp-socket",
        |store: Store<'_>, (_,): (IpAddressFamily,)| {
            Ok((refuse::<Resource<UdpSocket>>(&store, Kind::Datagram, String::new),))
        },
    )?;
    let mut lookup = linker.instance(wasi!("sockets/ip-name-lookup"))?;
    lookup.func_wrap(
        "resolve-addresses",
        |mut store: Store<'_>, (network, name): (Resource<Network>, String)| {
            if !store.data().tcp.names(&name) {
                return Ok((refuse(&store, Kind::Lookup, || name),));
            }
            if !descriptors::may_open(store.data_mut(), &name) {
                return Ok((Err(SocketErrorCode::NewSocketLimit),));
            }
            let made = store.data_mut().sockets().resolve_addresses(network, name.clone());
            if let Ok(stream) = &made {
                store.data().tcp.note_lookup(stream.rep(), &name);
            }
            Ok((plain(&mut store, made)?,))
        },
    )?;
    lookup.func_wrap(
        "[method]resolve-address-stream.resolve-next-address",
        |mut store: Store<'_>, (stream,): (Resource<ResolveAddressStream>,)| {
            let lookup = stream.rep();
            let found = store.data_mut().sockets().resolve_next_address(stream);
            if let Ok(Some(address)) = &found {
                store.data().tcp.note_address(lookup, address_of(*address));
            }
            Ok((plain(&mut store, found)?,))
        },
    )
}

fn refuse<T>(store: &Store<'_>, kind: Kind, request: impl FnOnce() -> String) -> Result<T, SocketErrorCode> {
    store.data().denials.note(kind, request);
    Err(SocketErrorCode::AccessDenied)
}

/// The library's result as the guest gets it; other errors trap.
fn plain<T>(store: &mut Store<'_>, answer: SocketResult<T>) -> Result<Result<T, SocketErrorCode>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(error) => Ok(Err(store.data_mut().sockets().convert_error_code(error)?)),
    }
}

fn address_of(address: IpAddress) -> std::net::IpAddr {
    match address {
        IpAddress::Ipv4((a, b, c, d)) => std::net::Ipv4Addr::new(a, b, c, d).into(),
        IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => std::net::Ipv6Addr::new(a, b, c, d, e, f, g, h).into(),
    }
}

/// Wraps a function of `descriptor` that takes a path, and notes what the library did not permit.
macro_rules! watched {
    ($files:ident, $name:literal, $call:ident, $kind:expr, $request:ident, ($($argument:ident: $type:ty),*)) => {
        $files.func_wrap_async(
            concat!("[method]descriptor.", $name),
            |mut store: Store<'_>, (this, $($argument),*): (Resource<Descriptor>, $($type),*)| {
                Box::new(async move {
                    let (kind, request) = ($kind, $request.clone());
                    let answer = store.data_mut().filesystem().$call(this, $($argument),*).await;
                    Ok((permitted(&mut store, answer, kind, request)?,))
                })
            },
        )?;
    };
}

fn link_files(files: &mut LinkerInstance<'_, Host>) -> Result<()> {
    type Folder = Resource<Descriptor>;
    watched!(files, "stat-at", stat_at, Kind::Read, path, (flags: PathFlags, path: String));
    watched!(files, "metadata-hash-at", metadata_hash_at, Kind::Read, path, (flags: PathFlags, path: String));
    watched!(files, "readlink-at", readlink_at, Kind::Read, path, (path: String));
    watched!(files, "create-directory-at", create_directory_at, Kind::Write, path, (path: String));
    watched!(files, "remove-directory-at", remove_directory_at, Kind::Write, path, (path: String));
    watched!(files, "unlink-file-at", unlink_file_at, Kind::Write, path, (path: String));
    watched!(files, "symlink-at", symlink_at, Kind::Write, to, (to: String, path: String));
    watched!(files, "rename-at", rename_at, Kind::Write, path, (path: String, folder: Folder, to: String));
    watched!(files, "link-at", link_at, Kind::Write, path,
        (flags: PathFlags, path: String, folder: Folder, to: String));
    watched!(files, "set-times-at", set_times_at, Kind::Write, path,
        (flags: PathFlags, path: String, accessed: NewTimestamp, changed: NewTimestamp));
    descriptors::link(files)
}

pub(crate) fn permitted<T>(
    store: &mut Store<'_>,
    answer: FsResult<T>,
    kind: Kind,
    request: String,
) -> Result<Result<T, ErrorCode>> {
    let error = match answer {
        Ok(value) => return Ok(Ok(value)),
        Err(error) => files::Host::convert_error_code(&mut store.data_mut().filesystem(), error)?,
    };
    // A path that leaves its folder, or a write where only reading is granted.
    if error == ErrorCode::NotPermitted {
        store.data().denials.note(kind, || request);
    }
    Ok(Err(error))
}
