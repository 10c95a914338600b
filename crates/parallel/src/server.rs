//! A server of the parameter store: it applies the update rules that workers have shipped as graphs.

use crate::job::ORIGIN;
use crate::status::failed;
use crate::update::{Compiled, Pushed};
use data::atomic::{read_sealed, write_sealed};
use dist::launch::Service;
use dist::{
    Apply, Consistency, Controller, Coordinator, Disk, EmbeddedCoordinator, Hello, Member, Saver, ServerOptions,
    Snapshot, StoreServer, Target, Update,
};
use nn::parallel::{RuleText, rule_key};
use nn::train::write_part;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tensor::{Error, Result};

/// How long joining, or fetching a rule that a worker has announced, may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves what the environment describes, a server or a scheduler, until the job is over. `rule` decides when reads
/// are answered, instead of the rule that the environment names.
pub fn serve(rule: Option<Arc<dyn Consistency>>) -> Result<()> {
    let service = Service::from_env(|name| std::env::var(name).ok()).map_err(failed)?;
    let done = match service {
        Service::Server { mut options, at, servers, copies } => {
            options.saver = Some(Arc::new(Parts));
            if let Some(rule) = rule {
                options.rule = rule;
            }
            let (workers, servers) = (options.workers, servers as usize);
            let controller = move || Controller::new(workers, servers, copies);
            let connect = {
                let (hello, secret, at) = (Hello::new("server", options.server), options.secret.clone(), at.clone());
                move || Member::connect(&at, &hello, secret.clone(), Instant::now() + PATIENCE)
            };
            let report = |text: &str| eprintln!("{text}");
            let coordinate = || dist::coordinate(&at, controller, report, Instant::now() + PATIENCE);
            run(*options, coordinate, connect)
        }
        Service::Coordinator { at, workers, servers, secret } => {
            let controller = Controller::new(workers as usize, servers as usize, 2);
            EmbeddedCoordinator::start(&at, secret, controller, |text| eprintln!("{text}")).map(|_serving| {
                // As DMLC's scheduler does, it serves until its starter ends it.
                loop {
                    std::thread::park();
                }
            })
        }
    };
    done.map_err(failed)
}

fn run(
    options: ServerOptions,
    coordinate: impl FnOnce() -> dist::Result<Option<Arc<dyn Coordinator>>>,
    connect: impl Fn() -> dist::Result<Member>,
) -> dist::Result<()> {
    let _writer = options.disk.as_ref().map(Disk::lock).transpose()?;
    options.disk.as_ref().map_or(Ok(()), |disk| disk.adopt(options.workers))?;
    coordinate()?.map(|c| std::thread::spawn(move || exit_after_workers(c.as_ref())));
    let folder = options.disk.as_ref().map(|d| d.folder.clone());
    let apply = || Ok(Box::new(Rules::new(connect()?, folder.clone())) as Box<dyn Apply>);
    StoreServer::run(options, connect()?, apply, |text| eprintln!("{text}"))
}

/// Writes parts of checkpoints.
struct Parts;

impl Saver for Parts {
    fn save(&self, snapshot: Snapshot) -> std::result::Result<(), String> {
        let blocks = snapshot.blocks.iter().map(|b| {
            let arrays = b.arrays.iter().map(|a| a.as_slice()).collect();
            (b.table, b.block, b.version, arrays)
        });
        write_part(&snapshot.to, blocks).map_err(|e| e.message)
    }
}

/// Ends this process when the workers have, if there may be no launcher left to do it.
fn exit_after_workers(coordinator: &dyn Coordinator) {
    let mut last: Option<Instant> = None;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        if !coordinator.list("progress/").is_empty() {
            last = Some(Instant::now());
        } else if last.is_some_and(|at| at.elapsed() > PATIENCE) {
            eprintln!("no worker is left: the server ends");
            std::process::exit(0);
        }
    }
}

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
            let bytes = match path.as_ref().filter(|p| p.exists()) {
                Some(p) => read_sealed(p)?,
                None => {
                    let found = self.member.wait(&rule_key(table, len), 0, Instant::now() + PATIENCE);
                    let (_, bytes) = found.map_err(failed)?;
                    path.map_or(Ok(()), |p| keep(&p, &bytes))?;
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
