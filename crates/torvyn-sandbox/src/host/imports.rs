//! The imports: every function of the WIT packages that a guest may call.
//!
//! None of them blocks. An invalid handle traps the guest: wasmtime has already checked handles, so only a mutable
//! buffer used after `freeze` gets here.

use bytes::Bytes;
use torvyn_stream::{ContentName, LONGEST_NAME, Payload};
use wasmtime::component::{Linker, Resource, ResourceType, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut, bail};

use crate::contract::{ALLOCATOR, Buffer, BufferError, CAPABILITIES, FlowContext, MutableBuffer, TYPES};
use crate::fault::MemoryExceeded;
use crate::host::details;
use crate::host::limits::PAYLOAD_MAX;
use crate::host::slab::{Data, Readable, Slot, Writing};
use crate::host::{CopyCounts, Host};

type Store<'a> = StoreContextMut<'a, Host>;
type Answer<T> = std::result::Result<T, BufferError>;

/// All handles of the flow's context are the same one.
pub const CONTEXT: u32 = u32::MAX;

/// Size classes of payload memory.
const TIERS: [u64; 5] = [256, 4 << 10, 64 << 10, 1 << 20, PAYLOAD_MAX];

pub fn link(linker: &mut Linker<Host>) -> Result<()> {
    link_buffers(linker)?;
    link_writing(linker)?;
    link_context(linker)?;
    details::link(linker)?;
    let mut allocator = linker.instance(ALLOCATOR)?;
    allocator.func_wrap("allocate", |store, (hint,): (u64,)| Ok((allocate(store, hint),)))?;
    allocator.func_wrap("clone-into-mutable", |store, (source,): (Resource<Buffer>,)| {
        Ok((clone_into_mutable(store, source.rep())?,))
    })?;
    linker.instance(CAPABILITIES)?.func_wrap("has-capability", |store: Store<'_>, (name,): (String,)| {
        Ok((store.data().grants.has(&name),))
    })
}

fn link_buffers(linker: &mut Linker<Host>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("buffer", ResourceType::host::<Buffer>(), |mut store, handle| {
        store.data_mut().let_go(handle);
        Ok(())
    })?;
    types.func_wrap("[method]buffer.size", |mut store: Store<'_>, (this,): (Resource<Buffer>,)| {
        Ok((u64::from(readable(&mut store, this.rep())?.len),))
    })?;
    types.func_wrap(
        "[method]buffer.content-type",
        |mut store: Store<'_>, (this,): (Resource<Buffer>,)| {
            let name = readable(&mut store, this.rep())?.content_type.as_ref();
            Ok((name.map_or_else(String::new, |name| name.as_str().to_owned()),))
        },
    )?;
    types.func_wrap("[method]buffer.read-all", |store: Store<'_>, (this,): (Resource<Buffer>,)| {
        Ok((read(store, this.rep(), 0, u64::MAX)?,))
    })?;
    types.func_wrap(
        "[method]buffer.read",
        |store: Store<'_>, (this, offset, len): (Resource<Buffer>, u64, u64)| {
            Ok((read(store, this.rep(), offset, len)?,))
        },
    )
}

fn link_writing(linker: &mut Linker<Host>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("mutable-buffer", ResourceType::host::<MutableBuffer>(), |mut store, handle| {
        store.data_mut().let_go(handle);
        Ok(())
    })?;
    types.func_wrap(
        "[method]mutable-buffer.append",
        |store: Store<'_>, (this, bytes): (Resource<MutableBuffer>, WasmList<u8>)| {
            Ok((write(store, this.rep(), None, &bytes)?,))
        },
    )?;
    types.func_wrap(
        "[method]mutable-buffer.write",
        |store: Store<'_>, (this, offset, bytes): (Resource<MutableBuffer>, u64, WasmList<u8>)| {
            Ok((write(store, this.rep(), Some(offset), &bytes)?,))
        },
    )?;
    types.func_wrap(
        "[method]mutable-buffer.size",
        |mut store: Store<'_>, (this,): (Resource<MutableBuffer>,)| {
            Ok((writing(&mut store, this.rep())?.len(),))
        },
    )?;
    types.func_wrap(
        "[method]mutable-buffer.capacity",
        |mut store: Store<'_>, (this,): (Resource<MutableBuffer>,)| {
            Ok((writing(&mut store, this.rep())?.capacity,))
        },
    )?;
    types.func_wrap(
        "[method]mutable-buffer.set-content-type",
        |store: Store<'_>, (this, name): (Resource<MutableBuffer>, WasmStr)| {
            set_content_type(store, this.rep(), &name)
        },
    )?;
    types.func_wrap(
        "[method]mutable-buffer.freeze",
        |store: Store<'_>, (this,): (Resource<MutableBuffer>,)| {
            Ok((Resource::<Buffer>::new_own(freeze(store, this.rep())?),))
        },
    )
}

fn link_context(linker: &mut Linker<Host>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("flow-context", ResourceType::host::<FlowContext>(), |_, _| Ok(()))?;
    type This = (Resource<FlowContext>,);
    types.func_wrap("[method]flow-context.trace-id", |store: Store<'_>, _: This| {
        Ok((store.data().facts.trace_id.clone(),))
    })?;
    types.func_wrap("[method]flow-context.span-id", |store: Store<'_>, _: This| {
        Ok((store.data().facts.span_id.clone(),))
    })?;
    types.func_wrap("[method]flow-context.flow-id", |store: Store<'_>, _: This| {
        Ok((store.data().facts.flow_id.clone(),))
    })?;
    types.func_wrap("[method]flow-context.deadline-ns", |store: Store<'_>, _: This| {
        // 0 means no deadline, so a deadline that has passed is reported as the shortest time.
        let left =
            store.data().facts.deadline.map(|at| at.saturating_duration_since(std::time::Instant::now()));
        Ok((left.map_or(0, |left| (left.as_nanos() as u64).max(1)),))
    })
}

/// A content type that a guest set; an empty name means none.
pub fn content_name(name: &str) -> Result<Option<ContentName>> {
    if name.is_empty() {
        return Ok(None);
    }
    match ContentName::new(name) {
        Some(name) => Ok(Some(name)),
        None => bail!("a content type of {} bytes (the limit is {LONGEST_NAME})", name.len()),
    }
}

fn set_content_type(mut store: Store<'_>, handle: u32, name: &WasmStr) -> Result<()> {
    let named = content_name(&name.to_str(&store)?)?;
    let open = writing(&mut store, handle)?;
    let before = open.held_bytes();
    open.content_type = named;
    let after = open.held_bytes();
    let limiter = &mut store.data_mut().limiter;
    limiter.remove_payload(before);
    let admitted = limiter.admit("content types", after);
    limiter.add_payload(after);
    admitted.map_err(|_| MemoryExceeded.into())
}

#[inline]
pub(crate) fn readable<'a>(store: &'a mut Store<'_>, handle: u32) -> Result<&'a mut Readable> {
    match store.data_mut().slab.get_mut(handle) {
        Some(Slot::Readable(readable)) => Ok(readable),
        _ => bail!("the handle is not a buffer"),
    }
}

#[inline]
fn writing<'a>(store: &'a mut Store<'_>, handle: u32) -> Result<&'a mut Writing> {
    match store.data_mut().slab.get_mut(handle) {
        Some(Slot::Writing(writing)) => Ok(writing),
        Some(Slot::UsedUp) => bail!("the mutable buffer was frozen"),
        _ => bail!("the handle is not a mutable buffer"),
    }
}

fn read(mut store: Store<'_>, handle: u32, offset: u64, len: u64) -> Result<Bytes> {
    let Some((bytes, host_copied)) = readable(&mut store, handle)?.bytes() else {
        bail!("the payload cannot be read");
    };
    let size = bytes.len() as u64;
    let start = offset.min(size);
    let end = start.saturating_add(len).min(size);
    let part = if end - start == size { bytes } else { bytes.slice(start as usize..end as usize) };
    let copies = &mut store.data_mut().copies;
    CopyCounts::note(&mut copies.to_guest, part.len() as u64);
    if host_copied > 0 {
        CopyCounts::note(&mut copies.to_native, host_copied);
    }
    Ok(part)
}

/// Writes at `offset`, or at the end.
fn write(mut store: Store<'_>, handle: u32, offset: Option<u64>, bytes: &WasmList<u8>) -> Result<Answer<()>> {
    let count = bytes.len() as u64;
    let before = writing(&mut store, handle)?.len();
    let offset = offset.unwrap_or(before);
    if offset > before {
        return Ok(Err(BufferError::OutOfBounds));
    }
    let after = before.max(offset.saturating_add(count));
    if after > writing(&mut store, handle)?.capacity {
        return Ok(Err(BufferError::CapacityExceeded));
    }
    if let Err(refused) = store.data_mut().may_make(after - before) {
        return Ok(Err(BufferError::AllocationFailed(refused)));
    }
    // The guest's memory and the slot are both in the store: the slot is taken out while both are used.
    let slot = writing(&mut store, handle)?;
    let empty = Writing { data: Data::Growing(Vec::new()), capacity: 0, content_type: None };
    let mut open = std::mem::replace(slot, empty);
    let source = bytes.as_le_slice(&store);
    if offset == before {
        open.append(source)
    } else {
        open.write(offset as usize, source)
    }
    *writing(&mut store, handle)? = open;
    let host = store.data_mut();
    host.limiter.add_payload(after - before);
    CopyCounts::note(&mut host.copies.to_host, count);
    Ok(Ok(()))
}

fn allocate(mut store: Store<'_>, hint: u64) -> Answer<Resource<MutableBuffer>> {
    let host = store.data_mut();
    host.may_make(hint).map_err(BufferError::AllocationFailed)?;
    let capacity = TIERS.into_iter().find(|tier| *tier >= hint).unwrap_or(PAYLOAD_MAX);
    open(host, Data::Growing(Vec::new()), capacity, None)
}

fn open(
    host: &mut Host,
    data: Data,
    capacity: u64,
    content_type: Option<ContentName>,
) -> Answer<Resource<MutableBuffer>> {
    let slot = Slot::Writing(Writing { data, capacity, content_type });
    host.hand_out(slot).map(Resource::new_own).map_err(BufferError::AllocationFailed)
}

fn clone_into_mutable(mut store: Store<'_>, source: u32) -> Result<Answer<Resource<MutableBuffer>>> {
    let found = readable(&mut store, source)?;
    let kind = found.content_type.clone();
    let held_bytes = found.held_bytes();
    let Some((bytes, host_copied)) = found.bytes() else { bail!("the payload cannot be read") };
    let size = bytes.len() as u64;
    let host = store.data_mut();
    if let Err(refused) = host.may_make(size) {
        return Ok(Err(BufferError::AllocationFailed(refused)));
    }
    if host_copied > 0 {
        CopyCounts::note(&mut host.copies.to_native, host_copied);
    }
    let data = Data::Whole(Payload::from_slice(&bytes), size as u32);
    let capacity = TIERS.into_iter().find(|tier| *tier > size).unwrap_or(PAYLOAD_MAX);
    let answer = open(host, data, capacity, kind);
    if answer.is_ok() {
        CopyCounts::note(&mut host.copies.within_host, size);
        host.limiter.add_payload(held_bytes);
    }
    Ok(answer)
}

fn freeze(mut store: Store<'_>, handle: u32) -> Result<u32> {
    writing(&mut store, handle)?;
    let host = store.data_mut();
    let slot = host.slab.get_mut(handle).map(|slot| std::mem::replace(slot, Slot::UsedUp));
    let Some(Slot::Writing(open)) = slot else { bail!("the handle is not a mutable buffer") };
    let frozen = Slot::Readable(open.freeze());
    match host.hand_out(frozen) {
        Ok(handle) => Ok(handle),
        Err(refused) => bail!("{refused}"),
    }
}
