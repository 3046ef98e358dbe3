//! A wake-up by file descriptor: a thread or an event loop can wait for it, and Ctrl-C ends the wait as well.
//!
//! Together with the signal mask of workers this is the crate's only unsafe code: five system calls.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Any number of `notify` calls before a `clear` cost one write.
#[derive(Debug)]
pub struct WakePipe {
    reader: OwnedFd,
    writer: OwnedFd,
    raised: AtomicBool,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Notified,
    TimedOut,
    /// A signal arrived: the host should handle it.
    Interrupted,
}

impl WakePipe {
    pub fn new() -> io::Result<Self> {
        let [reader, writer] = open_pipe()?;
        Ok(Self { reader, writer, raised: AtomicBool::new(false) })
    }

    pub fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    pub fn notify(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // SAFETY: one byte from a valid buffer. The pipe is empty here, so the write cannot block.
            unsafe { libc::write(self.writer.as_raw_fd(), b"!".as_ptr().cast(), 1) };
        }
    }

    /// Empties the pipe, then clears the flag. The caller looks for work afterwards, so a `notify` in between, which
    /// writes nothing, is not lost: the swap makes its data visible.
    pub fn clear(&self) {
        let mut bytes = [0u8; 8];
        // SAFETY: reads into a buffer of the given size; non-blocking.
        unsafe { libc::read(self.reader.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        self.raised.swap(false, Ordering::AcqRel);
    }

    /// Waits for a notification. `is_interrupted` runs when signals are already blocked, so it sees a signal that
    /// arrived before the wait, and a later one ends the wait: none is missed.
    pub fn wait(&self, timeout_ns: Option<u64>, is_interrupted: impl FnOnce() -> bool) -> Waited {
        let mask = SignalsBlocked::hold();
        if is_interrupted() {
            return Waited::Interrupted;
        }
        match self.poll(timeout_ns, &mask.before) {
            0 => Waited::TimedOut,
            1 => {
                self.clear();
                Waited::Notified
            }
            _ => Waited::Interrupted,
        }
    }

    #[cfg(target_os = "linux")]
    fn poll(&self, timeout_ns: Option<u64>, mask: &libc::sigset_t) -> i32 {
        let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        let time = timeout_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one valid pollfd; time and mask live through the call.
        unsafe { libc::ppoll(&mut poll, 1, time, mask) }
    }

    /// Without `ppoll` the wait is cut into pieces, so a signal is noticed a little late and never lost.
    #[cfg(not(target_os = "linux"))]
    fn poll(&self, timeout_ns: Option<u64>, mask: &libc::sigset_t) -> i32 {
        let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = timeout_ns.map_or(100, |ns| ns.div_ceil(1_000_000).min(100) as i32);
        // SAFETY: a valid mask and one valid pollfd.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
            libc::poll(&mut poll, 1, milliseconds)
        }
    }
}

/// A pipe that neither blocks nor outlives an `exec`.
#[cfg(target_os = "linux")]
fn open_pipe() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is a valid array of two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptors were just made and nobody else owns them.
    Ok(ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

#[cfg(not(target_os = "linux"))]
fn open_pipe() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is a valid array of two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for fd in ends {
        // SAFETY: plain flags on an open descriptor.
        unsafe {
            libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    // SAFETY: the descriptors were just made and nobody else owns them.
    Ok(ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Blocks this thread's signals while it lives.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn hold() -> Self {
        // SAFETY: both sets are filled by the calls before they are read.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self { before }
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: puts back the mask that was there.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Signals that a thread raises itself, such as a guest's trap. Blocking one would end the process.
const OWN: [libc::c_int; 5] = [libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP];

/// Sends outside signals to the main thread: if a worker took one, a waiting main thread would stay asleep.
pub fn block_signals() {
    // SAFETY: a zeroed set filled by the call that follows.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for signal in OWN {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// The calling thread's id in the host's list of threads.
pub fn thread_id() -> u64 {
    // SAFETY: has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notifications_are_one_wake_up() {
        let signal = WakePipe::new().unwrap();
        for _ in 0..100_000 {
            signal.notify();
        }
        assert_eq!(signal.wait(Some(0), || false), Waited::Notified);
        assert_eq!(signal.wait(Some(0), || false), Waited::TimedOut);
        assert_eq!(signal.wait(None, || true), Waited::Interrupted);
        signal.notify();
        assert_eq!(signal.wait(None, || false), Waited::Notified);
    }
}
