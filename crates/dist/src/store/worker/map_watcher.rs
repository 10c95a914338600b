//! Watches the partition map for a worker, in a background thread: the newest map is known without a
//! request, also while the membership store is slow. Links to servers that left the map are closed, so
//! that no read or write blocks on them until its deadline.

use crate::membership::Member;
use crate::membership::controller;
use crate::membership::publisher::FOREVER;
use crate::{Error, Map, Result};
use net::{Connection, Sender};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Handles to the links that are used, by server.
#[derive(Clone, Default)]
struct Links(Arc<Mutex<BTreeMap<u32, Sender>>>);

impl Links {
    /// Ends the links to all but these.
    fn keep(&self, is_kept: impl Fn(u32) -> bool) {
        self.0.lock().retain(|server, handle| {
            let keep = is_kept(*server);
            if !keep {
                handle.close();
            }
            keep
        });
    }
}

/// The newest map with its version, or why there will be none.
type Newest = std::result::Result<(u64, Vec<u8>), String>;

/// Learns at once when the map changes.
pub(crate) struct MapWatcher {
    links: Links,
    line: Arc<Member>,
    newest: Arc<Mutex<Newest>>,
}

impl MapWatcher {
    pub fn start(line: Member) -> MapWatcher {
        let (links, line) = (Links::default(), Arc::new(line));
        let newest = Arc::new(Mutex::new(Ok((0, Vec::new()))));
        let (watched, listening, heard) = (links.clone(), line.clone(), newest.clone());
        std::thread::spawn(move || {
            let mut version = 0;
            let why = loop {
                match listening.wait(controller::MAP, version, Instant::now() + FOREVER) {
                    Ok((newer, bytes)) => {
                        version = newer;
                        let map = Map::decode(&bytes);
                        *heard.lock() = Ok((newer, bytes));
                        // One that does not read is the caller's to complain about.
                        if let Ok(map) = map {
                            watched.keep(|server| map.names(server));
                        }
                    }
                    Err(e) => break e.to_string(),
                }
            };
            // Without the membership store no successor is known.
            *heard.lock() = Err(why);
            watched.keep(|_| false);
        });
        MapWatcher { links, line, newest }
    }
    /// The newest map and its version, if it is newer than that.
    ///
    /// # Errors
    /// If the membership store is gone.
    pub fn newer(&self, version: u64) -> Result<Option<(u64, Vec<u8>)>> {
        match &*self.newest.lock() {
            Ok((newest, bytes)) if *newest > version => Ok(Some((*newest, bytes.clone()))),
            Ok(_) => Ok(None),
            Err(why) => Err(Error::Lost(format!("the membership store is gone: {why}"))),
        }
    }
    /// Watches over a new link.
    pub fn watch(&self, server: u32, link: &mut Connection) -> Result<()> {
        self.links.0.lock().insert(server, link.halves().0.try_clone()?);
        Ok(())
    }
}
impl Drop for MapWatcher {
    fn drop(&mut self) {
        self.line.close();
    }
}
