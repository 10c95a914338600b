//! How ranks exchange bytes: in pieces, so that adding overlaps with receiving, and so that no two
//! ranks ever wait for each other to receive first.

use super::element::{Combine, Element};
use super::{Mesh, Signature};
use crate::kinds::collective::{ABORT, DATA};
use crate::{Error, Result};
use net::{Connection, Header, Pump, copy_past_caches};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long telling that may take, and the longest text.
const TELLING: Duration = Duration::from_millis(100);
const TEXT_MAX: usize = 4096;
/// Bytes of a piece over a socket.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of a piece through shared memory: six of them fit into a ring.
const SHARED_PIECE_BYTES: usize = 128 << 10;
/// Messages of this length no longer fit a cache.
const UNCACHED_BYTES: usize = 16 << 20;
/// What fits into any socket's buffer: both ends may send this before they receive.
const BUFFERED_BYTES: usize = 32 << 10;

/// What becomes of received data.
#[derive(Clone, Copy)]
pub(super) enum Take {
    Copy,
    /// To memory that is not read before caches hold something else.
    Put,
    Combine(Element, Combine),
}

impl Mesh {
    /// Sends one range of `data` and receives another, which may be the same range if what comes
    /// is combined.
    pub(super) fn swap(
        &mut self,
        to: usize,
        from: usize,
        data: &mut [u8],
        send: Range<usize>,
        receive: Range<usize>,
        take: Take,
        deadline: Instant,
    ) -> Result<()> {
        if send == receive {
            let mut out = std::mem::take(&mut self.outgoing);
            out.clear();
            out.extend_from_slice(&data[send]);
            let done = self.trade(to, from, &out, &mut data[receive], take, deadline);
            self.outgoing = out;
            return done;
        }
        if send.end <= receive.start {
            let (low, high) = data.split_at_mut(receive.start);
            self.trade(to, from, &low[send], &mut high[..receive.len()], take, deadline)
        } else {
            let (low, high) = data.split_at_mut(send.start);
            self.trade(to, from, &high[..send.len()], &mut low[receive], take, deadline)
        }
    }

    /// Sends to one peer while receiving from another.
    pub(super) fn trade(
        &mut self,
        to: usize,
        from: usize,
        send: &[u8],
        receive: &mut [u8],
        take: Take,
        deadline: Instant,
    ) -> Result<()> {
        if send.len() <= BUFFERED_BYTES {
            self.send_pieces(to, send, deadline)?;
            return self.receive_pieces(from, receive, take, None, deadline);
        }
        if self.is_shared(to)? && self.is_shared(from)? {
            return self.alternate(to, from, send, receive, take, deadline);
        }
        // Both ends would wait for each other if they sent first: send while receiving.
        let header = self.header();
        let piece = self.piece(to)?;
        let sender = self.link(to)?.halves().0.try_clone()?;
        let mut pump = Pump::new(sender, &header, send, piece)?;
        self.receive_pieces(from, receive, take, Some(&mut pump), deadline)?;
        Ok(pump.finish(deadline)?)
    }
    fn header(&self) -> Header {
        let mut h =
            Header { epoch: self.epoch, request: self.operations, sender: self.rank as u32, ..Header::new(DATA) };
        self.signature.write(&mut h);
        h
    }
    /// Tells the others that ranks do not do the same, so that every rank reports why it ends.
    pub(super) fn tell(&mut self, e: &Error) {
        let (Error::Refused(text), false) = (e, self.is_broken) else { return };
        let header = Header { kind: ABORT, ..self.header() };
        let text = format!("rank {} found that {}", self.rank, &text[..text.floor_char_boundary(TEXT_MAX - 64)]);
        let deadline = Instant::now() + TELLING;
        for link in self.links.iter_mut().flatten() {
            // Who is gone already knows.
            let _ = link.send(&header, &[text.as_bytes()], deadline);
        }
    }
    fn link(&mut self, peer: usize) -> Result<&mut Connection> {
        self.links[peer].as_mut().ok_or_else(|| Error::value(format!("there is no link to rank {peer}")))
    }
    pub(super) fn send_pieces(&mut self, to: usize, data: &[u8], deadline: Instant) -> Result<()> {
        let (header, piece) = (self.header(), self.piece(to)?);
        let link = self.link(to)?;
        Ok(pieces(data.len(), piece).try_for_each(|r| link.send(&header, &[&data[r]], deadline))?)
    }
    pub(super) fn receive_pieces(
        &mut self,
        from: usize,
        into: &mut [u8],
        take: Take,
        mut pump: Option<&mut Pump<'_>>,
        deadline: Instant,
    ) -> Result<()> {
        let piece = self.piece(from)?;
        pieces(into.len(), piece)
            .try_for_each(|r| self.receive_piece(from, &mut into[r], take, pump.as_deref_mut(), deadline))
    }
    fn receive_piece(
        &mut self,
        from: usize,
        into: &mut [u8],
        take: Take,
        mut pump: Option<&mut Pump<'_>>,
        deadline: Instant,
    ) -> Result<()> {
        let expected = self.header();
        let mut scratch = std::mem::take(&mut self.scratch);
        let receiver = self.link(from)?.receiver();
        let h = receiver.header_while(pump.as_deref_mut(), deadline)?;
        if h.kind == ABORT {
            let text = receiver.payload(TEXT_MAX, deadline)?;
            // Every rank has been notified.
            self.is_broken = true;
            return Err(Error::refused(String::from_utf8_lossy(&text).into_owned()));
        }
        let is_ours = (h.kind, h.epoch, h.request) == (DATA, expected.epoch, expected.request);
        Signature::read(&expected).check(from, &Signature::read(&h))?;
        if !is_ours || h.sender as usize != from || h.length as usize != into.len() {
            let group = if h.epoch == expected.epoch { "" } else { " of another group" };
            return Err(Error::refused(format!(
                "rank {from} is in operation {}{group} with {} bytes, this rank in {} with {}: all ranks must call \
                 the same collectives in the same order",
                h.request,
                h.length,
                expected.request,
                into.len()
            )));
        }
        let (mut at, is_copy) = (0, matches!(take, Take::Copy));
        let each = |piece: &[u8]| {
            let to = &mut into[at..at + piece.len()];
            at += piece.len();
            match take {
                Take::Combine(element, how) => element.combine(how, to, piece),
                Take::Copy | Take::Put => copy_past_caches(piece, to),
            }
        };
        let unit = if let Take::Combine(element, _) = take { element.size() } else { 1 };
        // From memory that is shared it need not be copied first, unless something is sent meanwhile.
        let is_shown = !is_copy && pump.is_none();
        if is_shown && receiver.payload_shown(h.length as usize, unit, each, deadline)? {
            self.scratch = scratch;
            return Ok(());
        }
        match take {
            Take::Copy | Take::Put => receiver.payload_into_while(into, pump, deadline)?,
            Take::Combine(element, how) => {
                scratch.resize(scratch.len().max(into.len().div_ceil(8)), 0);
                let room: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut scratch)[..into.len()];
                receiver.payload_into_while(room, pump, deadline)?;
                element.combine(how, into, room);
            }
        }
        self.scratch = scratch;
        Ok(())
    }

    fn is_shared(&mut self, peer: usize) -> Result<bool> {
        Ok(self.link(peer)?.is_shared())
    }
    fn piece(&mut self, peer: usize) -> Result<usize> {
        Ok(if self.is_shared(peer)? { SHARED_PIECE_BYTES } else { PIECE_BYTES })
    }
    /// [`Mesh::trade`] over shared memory, which has room for the pieces of both sides.
    fn alternate(
        &mut self,
        to: usize,
        from: usize,
        send: &[u8],
        receive: &mut [u8],
        take: Take,
        deadline: Instant,
    ) -> Result<()> {
        let mut incoming = pieces(receive.len(), SHARED_PIECE_BYTES);
        for (i, r) in pieces(send.len(), SHARED_PIECE_BYTES).enumerate() {
            self.send_pieces(to, &send[r], deadline)?;
            // One piece ahead, so that no rank waits for the other's last.
            if i > 0
                && let Some(r) = incoming.next()
            {
                self.receive_piece(from, &mut receive[r], take, None, deadline)?;
            }
        }
        incoming.try_for_each(|r| self.receive_piece(from, &mut receive[r], take, None, deadline))
    }
    /// The middle of [`super::Algorithm::Halving`]: gives one half away, combines the other and sends it
    /// back. Over shared memory piece by piece, while the pieces are in the cache.
    pub(super) fn halves(
        &mut self,
        peer: usize,
        data: &mut [u8],
        give: Range<usize>,
        keep: Range<usize>,
        take: Take,
        deadline: Instant,
    ) -> Result<()> {
        if !self.is_shared(peer)? {
            self.swap(peer, peer, data, give.clone(), keep.clone(), take, deadline)?;
            return self.swap(peer, peer, data, keep, give, Take::Copy, deadline);
        }
        let within = |whole: &Range<usize>, i: usize| {
            let start = (whole.start + i * SHARED_PIECE_BYTES).min(whole.end);
            start..(start + SHARED_PIECE_BYTES).min(whole.end)
        };
        let n = give.len().max(keep.len()).div_ceil(SHARED_PIECE_BYTES).max(1);
        let put = if data.len() >= UNCACHED_BYTES { Take::Put } else { Take::Copy };
        self.send_pieces(peer, &data[within(&give, 0)], deadline)?;
        for i in 0..n {
            if i + 1 < n {
                self.send_pieces(peer, &data[within(&give, i + 1)], deadline)?;
            }
            self.receive_piece(peer, &mut data[within(&keep, i)], take, None, deadline)?;
            self.send_pieces(peer, &data[within(&keep, i)], deadline)?;
            if i > 0 {
                self.receive_piece(peer, &mut data[within(&give, i - 1)], put, None, deadline)?;
            }
        }
        self.receive_piece(peer, &mut data[within(&give, n - 1)], put, None, deadline)
    }
}

/// The pieces of this many bytes; one empty piece if there are none.
fn pieces(len: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    let n = len.div_ceil(each).max(1);
    (0..n).map(move |i| i * each..((i + 1) * each).min(len))
}
