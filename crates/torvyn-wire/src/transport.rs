//! A connection with or without TLS, as hyper reads and writes it.

mod head_check;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use crate::socket::Socket;
use head_check::{HeadCheck, REFUSED};

/// How much is read at once.
pub const READ_BYTES: usize = 8 * 1024;

enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

pub struct Transport {
    stream: Stream,
    /// Of HTTP/1, for what hyper reads.
    check: Option<Box<HeadCheck>>,
    /// What has arrived after a head that asks for another protocol: the next read gets it.
    held: Vec<u8>,
}

impl Transport {
    pub fn plain(socket: Socket) -> Self {
        Self { stream: Stream::Plain(socket), check: None, held: Vec::new() }
    }

    pub fn tls(stream: TlsStream<Socket>) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), check: None, held: Vec::new() }
    }

    /// Refuses ambiguous heads of HTTP/1.
    pub fn with_head_check(self) -> Self {
        Self { check: Some(Box::default()), ..self }
    }

    fn is_refused(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.is_refused())
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match &mut self.stream {
            Stream::Plain(socket) => Pin::new(socket),
            Stream::Tls(stream) => Pin::new(stream.as_mut()),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.held.is_empty() {
            let count = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held[..count]);
            this.held.drain(..count);
            return Poll::Ready(Ok(()));
        }
        match &mut this.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl Read for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0_u8; READ_BYTES];
        let count = cursor.remaining().min(READ_BYTES);
        let mut buffer = ReadBuf::new(&mut bytes[..count]);
        if !self.is_refused() {
            ready!(AsyncRead::poll_read(self.as_mut(), context, &mut buffer))?;
        }
        let mut accepted = buffer.filled();
        let this = &mut *self;
        if let Some(check) = &mut this.check {
            let (checked, rest) = accepted.split_at(check.accept(accepted));
            accepted = checked;
            if !rest.is_empty() && !check.is_refused() {
                this.held.splice(..0, rest.iter().copied());
            }
        }
        // An empty read would be the end of the connection.
        let is_empty = accepted.is_empty() && self.is_refused();
        cursor.put_slice(if is_empty { &REFUSED[..count.min(REFUSED.len())] } else { accepted });
        Poll::Ready(Ok(()))
    }
}

impl Write for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().writer().poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self.stream, Stream::Plain(_))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().writer().poll_write_vectored(context, data)
    }
}
