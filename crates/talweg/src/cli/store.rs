//! `talweg store-server`: a server of the parameter store that runs optimizers as graphs.

use super::Program;
use super::rules::Rules;
use crate::{Error, Result};
use dist::launch::Service;
use dist::{
    Apply, Consistency, Controller, Coordinator, Disk, EmbeddedCoordinator, Hello, Member, Saver, Snapshot, StoreServer,
};
use nn::train::write_part;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long joining may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A rule in Python.
pub fn found(text: &str, program: &Program) -> Result<Arc<dyn Consistency>> {
    let e =
        "a rule in Python needs the `talweg` command of the Python package: pip install talweg, or python -m talweg";
    program.consistency.ok_or_else(|| Error::value(e))?(text)
}

/// Serves until the job is over.
pub fn run(consistency: Option<&str>, program: &Program) -> Result<()> {
    let rule = consistency.map(|text| found(text, program)).transpose()?;
    let done = Service::from_env(|name| std::env::var(name).ok()).and_then(|service| match service {
        Service::Server { mut options, at, servers, copies } => {
            options.saver = Some(Arc::new(Parts));
            if let Some(rule) = rule {
                options.rule = rule;
            }
            let _writer = options.disk.as_ref().map(Disk::lock).transpose()?;
            options.disk.as_ref().map_or(Ok(()), |disk| disk.adopt(options.workers))?;
            let (hello, secret) = (Hello::new("server", options.server), options.secret.clone());
            let connect = || Member::connect(&at, &hello, secret.clone(), Instant::now() + PATIENCE);
            let (workers, servers) = (options.workers, servers as usize);
            let controller = move || Controller::new(workers, servers, copies);
            let kept = dist::coordinate(&at, controller, |text| eprintln!("{text}"), Instant::now() + PATIENCE)?;
            kept.map(|coordinator| std::thread::spawn(move || end_after_the_workers(coordinator.as_ref())));
            let folder = options.disk.as_ref().map(|d| d.folder.clone());
            let apply = || Ok(Box::new(Rules::new(connect()?, folder.clone())) as Box<dyn Apply>);
            StoreServer::run(*options, connect()?, apply, |text| eprintln!("{text}"))
        }
        Service::Coordinator { at, workers, servers, secret } => {
            let controller = Controller::new(workers as usize, servers as usize, 2);
            let _serving = EmbeddedCoordinator::start(&at, secret, controller, |text| eprintln!("{text}"))?;
            // As DMLC's scheduler does, it serves until its parent ends it.
            loop {
                std::thread::park();
            }
        }
    });
    done.map_err(|e: dist::Error| Error::value(e.to_string()))
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
fn end_after_the_workers(coordinator: &dyn Coordinator) {
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
