//! The thread that all connections of a process share. It is started by the first one.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

static RUNTIME: OnceLock<Handle> = OnceLock::new();

/// The event loop; an error if the system gives us no thread.
pub(crate) fn handle() -> std::io::Result<Handle> {
    if let Some(handle) = RUNTIME.get() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    if RUNTIME.set(handle.clone()).is_ok() {
        std::thread::Builder::new()
            .name("torvyn-broker".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        return Ok(handle);
    }
    // Another thread was first.
    Ok(RUNTIME.get().cloned().unwrap_or(handle))
}
