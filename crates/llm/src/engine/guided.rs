//! Masks of constrained requests, computed on a thread of their own while the model computes.

use crate::constrain::{Guide, Mask};
use ir::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// A guide with the mask of the next token.
type Ready = (Guide, Result<Mask>);
type Job = (Guide, SyncSender<Ready>);

/// The thread that computes masks. It starts with the first constrained request, and ends when this is dropped.
#[derive(Default)]
pub struct Masks(Option<Sender<Job>>);

impl Masks {
    fn send(&mut self, guide: Guide) -> Result<Receiver<Ready>> {
        if self.0.is_none() {
            let (to, from) = channel::<Job>();
            let work = move || {
                for (mut guide, done) in from {
                    let mask = guide.mask();
                    // A request that ended meanwhile needs none.
                    let _ = done.send((guide, mask));
                }
            };
            let spawned = std::thread::Builder::new().name("llm-masks".into()).spawn(work);
            spawned.map_err(|e| Error::new(ir::ErrorKind::Io, e.to_string()))?;
            self.0 = Some(to);
        }
        let (to, from) = sync_channel(1);
        let gone = || Error::bug("the thread of masks is gone");
        self.0.as_ref().ok_or_else(gone)?.send((guide, to)).map_err(|_| gone())?;
        Ok(from)
    }
}

/// How far a constrained text is.
pub struct Guided {
    ready: Option<(Guide, Mask)>,
    pending: Option<Receiver<Ready>>,
}

impl Guided {
    /// The beginning of a text.
    pub fn new(guide: Guide, masks: &mut Masks) -> Result<Guided> {
        Ok(Guided { ready: None, pending: Some(masks.send(guide)?) })
    }

    /// The tokens that may come next. Waits for the mask if it is still being computed.
    pub fn mask(&mut self) -> Result<&Mask> {
        if let Some(pending) = self.pending.take() {
            let (guide, mask) = pending.recv().map_err(|_| Error::bug("the thread of masks is gone"))?;
            self.ready = Some((guide, mask?));
        }
        self.ready.as_ref().map(|r| &r.1).ok_or_else(|| Error::bug("a constraint has failed before"))
    }

    /// The text goes on with a token. Whether it is complete then; if not, the next mask is begun.
    pub fn consume(&mut self, token: u32, masks: &mut Masks) -> Result<bool> {
        self.mask()?;
        let (mut guide, _) = self.ready.take().ok_or_else(|| Error::bug("a constraint has failed before"))?;
        guide.consume(token)?;
        if guide.is_stopped() {
            return Ok(true);
        }
        self.pending = Some(masks.send(guide)?);
        Ok(false)
    }
}
