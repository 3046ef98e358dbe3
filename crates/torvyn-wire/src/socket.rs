//! A TCP connection as hyper and rustls read and write it.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mio::net::TcpStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::reactor::{Handle, Interest, Readiness};

const DISCARD_BYTES: usize = 4 * 1024;
/// After so many bytes the kernel is asked whether it wants more.
const ROOM_BYTES: usize = 8 * 1024;

/// The part of a connection that its owner keeps while hyper has the rest.
pub struct Line {
    stream: TcpStream,
    readiness: Readiness,
    received: AtomicU64,
    /// Whether the last write found no room.
    has_blocked: AtomicBool,
    /// What was written since the kernel was last asked whether it wants more.
    written: AtomicUsize,
}

impl Line {
    pub fn open(handle: &Arc<Handle>, mut stream: TcpStream) -> io::Result<Arc<Self>> {
        let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
        let readiness = handle.watch(&mut stream, interest)?;
        Ok(Arc::new(Self {
            stream,
            readiness,
            received: AtomicU64::new(0),
            has_blocked: AtomicBool::new(false),
            written: AtomicUsize::new(0),
        }))
    }

    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// How many bytes have arrived.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether the connection that was begun is there.
    pub fn poll_connected(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.try_io(Interest::Write, context, |stream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                outcome => outcome.map(|_| ()),
            }
        })
    }

    /// Small writes do not wait for each other.
    pub fn send_at_once(&self) {
        let _ = self.stream.set_nodelay(true);
    }

    /// Whether a task waits until it can write.
    pub fn is_blocked(&self) -> bool {
        self.has_blocked.load(Ordering::Relaxed) && !self.readiness.is_writable()
    }

    /// For a large answer: a small buffer would be sent in pieces that each wait for the client.
    pub fn enlarge_send_buffer(&self, bytes: usize) {
        let _ = SockRef::from(&self.stream).set_send_buffer_size(bytes);
    }

    /// Drops what has arrived; whether that was anything.
    pub fn discard(&self) -> bool {
        let mut bytes = [0_u8; DISCARD_BYTES];
        matches!((&self.stream).read(&mut bytes), Ok(count) if count > 0)
    }

    /// Drops what arrives, until the client sends no more.
    pub fn poll_discard(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0_u8; DISCARD_BYTES];
        loop {
            match ready!(self.try_io(Interest::Read, context, |mut stream| stream.read(&mut bytes))) {
                Ok(count) if count > 0 => {}
                _ => return Poll::Ready(()),
            }
        }
    }

    /// Closing it will reset the connection, and drop what the kernel still has to send.
    pub fn reset_on_close(&self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Writes no more than the kernel wants. It would take more: it fills the last segment of a queue whatever the
    /// limit of the queue is, and a segment holds up to 64 KiB, which a client that never reads would cost.
    fn poll_write(
        &self,
        context: &mut Context<'_>,
        work: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if self.written.load(Ordering::Relaxed) >= ROOM_BYTES {
            self.written.store(0, Ordering::Relaxed);
            if !self.has_room() {
                self.has_blocked.store(true, Ordering::Relaxed);
                self.readiness.clear(Interest::Write);
            }
        }
        let count = ready!(self.try_io(Interest::Write, context, work))?;
        self.written.fetch_add(count, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    /// If not, the kernel reports when there is some: unlike a write that fits, asking makes it do so.
    fn has_room(&self) -> bool {
        let mut asked = [PollFd::new(&self.stream, PollFlags::OUT)];
        !matches!(poll(&mut asked, Some(&Timespec::default())), Ok(0))
    }

    fn try_io<T>(
        &self,
        interest: Interest,
        context: &mut Context<'_>,
        mut work: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.readiness.poll(interest, context));
            match work(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if interest == Interest::Write {
                        self.has_blocked.store(true, Ordering::Relaxed);
                    }
                    self.readiness.clear(interest);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

pub struct Socket {
    line: Arc<Line>,
    /// Bytes that were read to recognise the protocol, and are read again.
    peeked: Vec<u8>,
}

impl Socket {
    pub fn new(line: Arc<Line>) -> Self {
        Self { line, peeked: Vec::new() }
    }

    pub fn unread(&mut self, bytes: Vec<u8>) {
        self.peeked = bytes;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.peeked.is_empty() {
            let count = self.peeked.len().min(buffer.remaining());
            buffer.put_slice(&self.peeked[..count]);
            self.peeked.drain(..count);
            if self.peeked.is_empty() {
                // With what has arrived since, so that a head is parsed once. An end or an error is reported again.
                self.peeked = Vec::new();
                let _ = self.poll_read(context, buffer);
            }
            return Poll::Ready(Ok(()));
        }
        let space = buffer.initialize_unfilled();
        let asked = space.len();
        let count = ready!(self.line.try_io(Interest::Read, context, |mut stream| stream.read(space)))?;
        if count > 0 && count < asked && !self.line.readiness.is_read_closed() {
            // Less than asked means that the kernel has no more; the next bytes are reported again. An end that was
            // reported together with these bytes is not.
            self.line.readiness.clear(Interest::Read);
        }
        self.line.received.fetch_add(count as u64, Ordering::Relaxed);
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.line.poll_write(context, |mut stream| stream.write(data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.line.poll_write(context, |mut stream| stream.write_vectored(data))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.line.stream.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}
