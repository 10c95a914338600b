//! Ends a worker's links to servers that are no longer in the map: whoever is writing to one that
//! hangs, or reading from one that was cut off, must not wait for it until its deadline.

use crate::membership::Registrar;
use crate::{Map, Result, roster};
use net::{Connection, Sender};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// It looks for as long as the process lives.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

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

/// Hears at once when the map changes.
pub(crate) struct Lookout {
    links: Links,
    line: Arc<Registrar>,
}

impl Lookout {
    pub fn start(line: Registrar) -> Lookout {
        let (links, line) = (Links::default(), Arc::new(line));
        let (watched, listening) = (links.clone(), line.clone());
        std::thread::spawn(move || {
            let mut version = 0;
            while let Ok((newer, bytes)) = listening.wait(roster::MAP, version, Instant::now() + FOREVER) {
                version = newer;
                // One that does not read is the caller's to complain about.
                if let Ok(map) = Map::decode(&bytes) {
                    watched.keep(|server| map.names(server));
                }
            }
            // Without the membership store nobody can say who took over.
            watched.keep(|_| false);
        });
        Lookout { links, line }
    }
    /// Watches over a new link.
    pub fn watch(&self, server: u32, link: &mut Connection) -> Result<()> {
        self.links.0.lock().insert(server, link.halves().0.try_clone()?);
        Ok(())
    }
}
impl Drop for Lookout {
    fn drop(&mut self) {
        self.line.close();
    }
}
