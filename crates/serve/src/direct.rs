//! Answers that the engine's thread writes to the socket itself. A request that is alone waits for every thread that has to
//! wake up. With nothing else to do, the engine writes its answer, and the task of the connection finds it written.

use crate::answer::Answer;
use bytes::Bytes;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use tokio::net::TcpStream;

/// Parts of an answer that are written with one call at most; more are rare.
const PARTS_MAX: usize = 16;

/// What the engine has written of an answer.
#[derive(Clone)]
pub struct Sent {
    /// What the socket did not take.
    pub rest: Vec<Bytes>,
    /// Whether the connection stays open.
    pub is_kept: bool,
    /// When it was tried.
    pub written_us: u64,
}

/// Says who writes an answer: the engine, or the task that gives up waiting for it.
#[derive(Clone, Default)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Whether the caller is the first to ask, and so the one that writes.
    pub fn take(&self) -> bool {
        !self.0.swap(true, AcqRel)
    }
}

/// Writes an answer; `None` if it did not write anything.
pub(crate) type Write = Box<dyn FnOnce(&Answer) -> Option<Sent> + Send>;

/// How the engine can answer a request.
pub struct Direct {
    pub(crate) turn: Turn,
    write: Write,
}

impl Direct {
    /// With what writes the answer.
    pub(crate) fn new(write: Write) -> Direct {
        Direct { turn: Turn::default(), write }
    }
    /// Writes the answer, unless the task that waits for it does.
    pub(crate) fn send(self, answer: &Answer) -> Option<Sent> {
        if self.turn.take() { (self.write)(answer) } else { None }
    }
}

/// Writes as much as the socket takes at once; returns the rest. A socket that fails takes nothing: its task finds out.
pub(crate) fn write_now(stream: &TcpStream, mut parts: Vec<Bytes>) -> Vec<Bytes> {
    parts.retain(|part| !part.is_empty());
    while !parts.is_empty() {
        let slices: Vec<IoSlice<'_>> = parts.iter().take(PARTS_MAX).map(|part| IoSlice::new(part)).collect();
        let Ok(mut written) = stream.try_write_vectored(&slices) else { break };
        parts.retain_mut(|part| {
            let own = written.min(part.len());
            written -= own;
            drop(part.split_to(own));
            !part.is_empty()
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_a_socket_does_not_take_is_left_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let near = listener.accept().await.unwrap().0;
        near.writable().await.unwrap();
        let all: Vec<u8> = (0..32u32 << 20).map(|i| (i / 7) as u8).collect();
        let parts = vec![Bytes::new(), all[..5].to_vec().into(), Bytes::new(), all[5..].to_vec().into()];
        let rest = write_now(&near, parts);
        let left: usize = rest.iter().map(Bytes::len).sum();
        assert!(left > 0 && left < all.len(), "{left} bytes are left");
        let mut got = vec![0; all.len() - left];
        far.read_exact(&mut got).await.unwrap();
        got.extend(rest.iter().flatten());
        assert!(got == all);
        assert!(write_now(&near, Vec::new()).is_empty());
    }

    #[test]
    fn an_answer_is_written_once() {
        let answer = Answer::new(Arc::new(Vec::new()), None, 1, 0);
        let sent = || Some(Sent { rest: Vec::new(), is_kept: true, written_us: 1 });
        let direct = Direct::new(Box::new(move |_| sent()));
        assert!(direct.send(&answer).is_some());
        let direct = Direct::new(Box::new(move |_| sent()));
        assert!(direct.turn.clone().take(), "a task that gives up writes");
        assert!(direct.send(&answer).is_none(), "then the engine does not");
    }
}
