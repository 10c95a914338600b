//! How tables change on the servers of the parameter store: graphs that workers have announced.

use data::atomic::{read_sealed, write_sealed};
use dist::{Apply, Member, Target, Update};
use nn::parallel::{Compiled, ORIGIN, Pushed, RuleText, rule_key};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use talweg::{Error, Result};

/// How long a rule that a worker has announced may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The update rules of the tables, fetched when they are first needed and compiled.
pub struct Rules {
    member: Member,
    /// By table and elements of a block.
    rules: BTreeMap<(u32, usize), Compiled>,
    /// Where they are kept with what they have made: a server that goes on with what is on its
    /// disk repeats updates before there is a worker to ask.
    folder: Option<PathBuf>,
    /// Memory that is used again by each step.
    room: Vec<f32>,
}

impl Rules {
    /// Rules that the membership store knows, or a folder that they are kept in as well.
    pub fn new(member: Member, folder: Option<PathBuf>) -> Rules {
        Rules { member, rules: BTreeMap::new(), folder, room: Vec::new() }
    }
    fn rule(&mut self, table: u32, len: usize) -> Result<&Compiled> {
        if !self.rules.contains_key(&(table, len)) {
            let path = self.folder.as_ref().map(|f| f.join(format!("rule-{table}.{len}")));
            let failed = |e: data::Error| Error::value(e.to_string());
            let bytes = match path.as_ref().filter(|p| p.exists()) {
                Some(p) => read_sealed(p).map_err(failed)?,
                None => {
                    let found = self.member.wait(&rule_key(table, len), 0, Instant::now() + PATIENCE);
                    let (_, bytes) = found.map_err(|e| Error::value(e.to_string()))?;
                    path.map_or(Ok(()), |p| keep(&p, &bytes)).map_err(failed)?;
                    bytes
                }
            };
            self.rules.insert((table, len), Compiled::new(RuleText::decode(&bytes)?)?);
        }
        self.rules.get(&(table, len)).ok_or_else(|| Error::bug("inserted above"))
    }
}

/// Writes a rule for its owner alone, as the partitions beside it.
fn keep(path: &Path, bytes: &[u8]) -> std::result::Result<(), data::Error> {
    write_sealed(path, bytes)?;
    let failed = |e| data::Error::io("protect", path, e);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)
}

impl Apply for Rules {
    fn state(&mut self, table: u32, len: usize) -> std::result::Result<Vec<Vec<f32>>, String> {
        if table == ORIGIN {
            return Ok(Vec::new());
        }
        let state = self.rule(table, len).and_then(|rule| rule.state(len));
        state.map_err(|e| format!("table {table}: {e}"))
    }
    fn apply(&mut self, mut to: Target<'_>, update: &Update) -> std::result::Result<(), String> {
        let (version, width) = (to.version, to.width);
        let mut room = std::mem::take(&mut self.room);
        let done = self.rule(update.table, to.len()).and_then(|rule| {
            let pushed = Pushed { update, version, width };
            if rule.is_in_place() {
                return rule.change(&mut to.arrays(), &pushed);
            }
            to.replace(|old, new| rule.step(old, new, &pushed, &mut room))
        });
        self.room = room;
        done.map_err(|e| e.to_string())
    }
}
