//! Other processes, as a device sees them that exchanges with their devices without the host.

use ir::{Call, Result};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The ranks of a group, by the number that nodes know it by.
pub trait Peers: Send + Sync {
    /// This process's number among them.
    fn rank(&self) -> usize;
    /// How many they are.
    fn size(&self) -> usize;
    /// Everybody's bytes, of which all bring the same number, by rank.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// An error unless all who take part are about to run this node.
    fn agree(&self, op: &str, call: &Call) -> Result<()>;
    /// How long an exchange may take.
    fn patience(&self) -> Duration;
}

/// Finds the ranks of a group; `None` if devices are to exchange through the host.
pub type FindPeers = fn(i64) -> Result<Option<Arc<dyn Peers>>>;

static FIND: OnceLock<FindPeers> = OnceLock::new();

/// Says how the ranks of groups are found; the first who says so is asked.
pub fn offer_peers(find: FindPeers) {
    let _ = FIND.set(find);
}
/// The ranks of a group, if devices are to exchange among themselves.
pub fn peers(group: i64) -> Result<Option<Arc<dyn Peers>>> {
    FIND.get().map_or(Ok(None), |find| find(group))
}
