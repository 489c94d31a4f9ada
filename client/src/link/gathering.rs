//! A stream that writes when its thread has nothing else to do: what many tasks send at the same time goes in one piece.
//!
//! A write costs this machine more than all else that a request does, and each of a server's answers sets tasks free
//! that send something. One turn of the thread is all that a request waits.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;

pub(super) struct Gathering<S> {
    stream: S,
    /// Until which nothing is written.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_over: bool,
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    pub(super) fn of(stream: S) -> Self {
        Self { stream, turn: None, is_over: false }
    }

    /// Lets the others go first, once before each write.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if !self.is_over {
            ready!(self.turn.get_or_insert_with(|| Box::pin(yield_now())).as_mut().poll(context));
            (self.turn, self.is_over) = (None, true);
        }
        let written = ready!(write(Pin::new(&mut self.stream), context));
        self.is_over = false;
        Poll::Ready(written)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}
