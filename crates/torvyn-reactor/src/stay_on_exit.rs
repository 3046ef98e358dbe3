//! Keeps threads of a host that shuts down from unwinding through Rust.

/// A host that shuts down ends the threads that return to it by unwinding. That is not a panic, and Rust must not catch
/// it: the process would abort. Such a thread parks here instead, until the process ends.
pub struct StayOnExit(());

impl StayOnExit {
    pub fn around<T>(act: impl FnOnce() -> T) -> T {
        let guard = Self(());
        let result = act();
        std::mem::forget(guard);
        result
    }
}

impl Drop for StayOnExit {
    fn drop(&mut self) {
        while !std::thread::panicking() {
            std::thread::park();
        }
    }
}
