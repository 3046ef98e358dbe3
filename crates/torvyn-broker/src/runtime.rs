//! The thread that all connections of a process share. It is started by the first one, and again in a forked process.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

/// The process that has started the thread, and its event loop.
static RUNTIME: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

/// The event loop; an error if the system gives us no thread.
pub(crate) fn handle() -> std::io::Result<Handle> {
    let mut started = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((_, handle)) = started.as_ref().filter(|(owner, _)| *owner == process) {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("torvyn-broker".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    // What the parent of a forked process has left is not touched: its thread is not here.
    std::mem::forget(started.replace((process, handle.clone())));
    Ok(handle)
}
