//! Starting the processes of a job, and finding one's place in a job that somebody else started.

use crate::coordinator::Coordinator;
use crate::roster::Roster;
use crate::{Error, HostOptions, Result, Rule};
use net::{Address, Secret};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Where a process stands in its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Number of this worker.
    pub rank: u32,
    /// How many workers there are.
    pub world: u32,
    /// Number of this worker on its machine.
    pub local_rank: u32,
    /// Where the membership store is.
    pub coordinator: Address,
    /// Whether this process has to keep the membership store itself: nobody launched the job
    /// with `talweg launch`, and this is rank 0.
    pub keeps: bool,
    /// How many servers of the parameter store there are; 0: workers reduce among themselves.
    pub servers: u32,
    /// Consistency of the parameter store.
    pub rule: Rule,
    /// The shared secret.
    pub secret: Option<Secret>,
}

/// Rank, number of ranks and local rank as the schedulers call them, in the order they are asked.
const RANKS: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["JOB_COMPLETION_INDEX", "DMLC_NUM_WORKER", "LOCAL_RANK"],
];

impl Place {
    /// Reads the environment: what `talweg launch` sets, or, if `TALWEG_PARALLEL=1` says that the
    /// processes belong together, what torchrun, Slurm, Open MPI or an indexed job sets. `None`:
    /// this process is alone.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Result<Option<Place>> {
        let launched = var("TALWEG_COORDINATOR");
        if launched.is_none() && var("TALWEG_PARALLEL").as_deref() != Some("1") {
            return Ok(None);
        }
        let number = |name: &str| -> Result<Option<u32>> {
            let bad = |v: &String| Error::value(format!("{name} must be a number, not {v:?}"));
            var(name).map(|v| v.parse().map_err(|_| bad(&v))).transpose()
        };
        let mut place = None;
        for [rank, world, local] in RANKS {
            if let (Some(r), Some(w)) = (number(rank)?, number(world)?) {
                place = Some((r, w, number(local)?.unwrap_or(r)));
                break;
            }
        }
        let Some((rank, world, local_rank)) = place else {
            let e = "no rank is set: RANK and WORLD_SIZE, or those of Slurm, Open MPI or an indexed job, are expected";
            return Err(Error::value(e));
        };
        if rank >= world {
            return Err(Error::value(format!("rank {rank} of {world} does not exist")));
        }
        let coordinator = match &launched {
            Some(address) => address.parse()?,
            None => beside_master(&var)?,
        };
        let rule: Rule = var("TALWEG_CONSISTENCY").map_or(Ok(Rule::BSP), |t| t.parse())?;
        rule.check(world as usize)?;
        Ok(Some(Place {
            rank,
            world,
            local_rank,
            coordinator,
            keeps: launched.is_none() && rank == 0,
            servers: number("TALWEG_SERVERS")?.unwrap_or(0),
            rule,
            secret: var("TALWEG_SECRET").map(|s| Secret::new(&s)).transpose()?,
        }))
    }
}

/// What a server that `talweg launch` has started needs to begin, and where the membership store
/// is.
pub fn server_from_env(var: impl Fn(&str) -> Option<String>) -> Result<(HostOptions, Address)> {
    let need = |name: &str| var(name).ok_or_else(|| Error::value(format!("{name} is not set: `talweg launch` does")));
    let number = |name: &str| -> Result<u32> {
        let text = need(name)?;
        text.parse().map_err(|_| Error::value(format!("{name} must be a number, not {text:?}")))
    };
    let rule: Rule = need("TALWEG_CONSISTENCY")?.parse()?;
    let workers = number("WORLD_SIZE")? as usize;
    rule.check(workers)?;
    let options = HostOptions {
        server: number("TALWEG_SERVER")?,
        workers,
        listen: "127.0.0.1:0".parse()?,
        secret: var("TALWEG_SECRET").map(|s| Secret::new(&s)).transpose()?,
        rule: Arc::new(rule),
    };
    Ok((options, need("TALWEG_COORDINATOR")?.parse()?))
}

/// The port after the master's, which the scheduler's own store may have taken.
fn beside_master(var: &impl Fn(&str) -> Option<String>) -> Result<Address> {
    let host = var("MASTER_ADDR").unwrap_or_else(|| "127.0.0.1".to_string());
    let port = var("MASTER_PORT").unwrap_or_else(|| "29500".to_string());
    let port: u16 = port.parse().map_err(|_| Error::value(format!("MASTER_PORT must be a port, not {port:?}")))?;
    let beside = port.checked_add(1).ok_or_else(|| Error::value("MASTER_PORT must be below 65535"))?;
    Ok(format!("{host}:{beside}").parse()?)
}

/// What to launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Workers.
    pub workers: u32,
    /// Servers of the parameter store.
    pub servers: u32,
    /// Copies of each partition.
    pub copies: usize,
    /// Consistency of the parameter store.
    pub rule: Rule,
    /// How often a lost worker is started again.
    pub restarts_max: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// What runs a server.
    pub server: Vec<OsString>,
}

struct Process {
    name: String,
    rank: u32,
    restarts: u32,
    child: Child,
    /// How it ended, if it has.
    ended: Option<ExitStatus>,
}

impl Launch {
    /// Starts everything, watches it, and answers whether the job succeeded: every worker ended
    /// well, was killed while others went on, or was replaced.
    pub fn run(&self) -> Result<bool> {
        self.check()?;
        let secret = Secret::generate()?;
        let roster = Roster::new(self.workers as usize, self.servers as usize, self.copies);
        let (note, notes) = std::sync::mpsc::channel();
        let report = move |text: &str| drop(note.send(format!("[launch] {text}")));
        let at = "127.0.0.1:0".parse()?;
        let coordinator = Coordinator::start(&at, Some(Secret::new(&secret)?), roster, report)?;
        let start = |name: String, command: &[OsString], rank: u32, restarts: u32| -> Result<Process> {
            let kind = if command == self.server { "TALWEG_SERVER" } else { "RANK" };
            let child = self.spawn(command, (kind, rank), restarts, coordinator.address(), &secret)?;
            Ok(watch(Process { name, rank, restarts, child, ended: None }))
        };
        let mut servers = Vec::new();
        for i in 0..self.servers {
            servers.push(start(format!("server {i}"), &self.server, i, 0)?);
        }
        let mut workers = Vec::new();
        for i in 0..self.workers {
            workers.push(start(format!("worker {i}"), &self.program, i, 0)?);
        }
        let (mut is_ending, mut news): (bool, Vec<String>) = (false, Vec::new());
        while workers.iter().any(|w| w.ended.is_none()) {
            std::thread::sleep(Duration::from_millis(10));
            // Said one round later: that processes leave because they are done is no news.
            news.drain(..).filter(|_| !is_ending).for_each(|n| say(&n));
            news.extend(notes.try_iter());
            for i in 0..workers.len() {
                let w = &mut workers[i];
                if w.ended.is_some() {
                    continue;
                }
                let Some(status) = w.child.try_wait().map_err(Error::io("waiting for a worker"))? else { continue };
                if status.success() {
                    is_ending = true;
                    w.ended = Some(status);
                    coordinator.left(w.rank)?;
                } else if w.restarts < self.restarts_max && !is_ending {
                    say(&format!("[launch] {} ended with {status}: it is started again", w.name));
                    *w = start(w.name.clone(), &self.program, w.rank, w.restarts + 1)?;
                } else {
                    say(&format!("[launch] {} ended with {status}", w.name));
                    w.ended = Some(status);
                    coordinator.left(w.rank)?;
                }
            }
            for s in servers.iter_mut().filter(|s| s.ended.is_none()) {
                s.ended = s.child.try_wait().map_err(Error::io("waiting for a server"))?;
                if let Some(status) = s.ended {
                    say(&format!("[launch] {} ended with {status}", s.name));
                }
            }
        }
        for s in servers.iter_mut().filter(|s| s.ended.is_none()) {
            // It may end by itself at this very moment, which is as good.
            let _ = s.child.kill();
            let _ = s.child.wait();
        }
        let succeeded = workers.iter().any(|w| w.ended.is_some_and(|s| s.success()));
        // A replacement that the others could not let in before they were done has not failed.
        let counts = |w: &&Process| w.restarts == 0 || !succeeded;
        let failed = workers.iter().filter(counts).any(|w| w.ended.is_some_and(|s| s.code().is_some_and(|c| c != 0)));
        Ok(succeeded && !failed)
    }

    fn check(&self) -> Result<()> {
        if self.workers == 0 {
            return Err(Error::value("a job needs at least one worker"));
        }
        if self.program.is_empty() {
            return Err(Error::value("there is no program to launch"));
        }
        if self.servers == 0 && self.rule != Rule::BSP {
            let e = format!(
                "--consistency {} needs --servers: workers that reduce among themselves wait for each other",
                self.rule
            );
            return Err(Error::value(e));
        }
        self.rule.check(self.workers as usize)
    }

    fn spawn(
        &self,
        command: &[OsString],
        (kind, rank): (&str, u32),
        restarts: u32,
        at: &Address,
        secret: &str,
    ) -> Result<Child> {
        let world = self.workers.to_string();
        let Address::Tcp(socket) = at else { return Err(Error::value("the launcher listens on TCP")) };
        let mut c = Command::new(&command[0]);
        c.args(&command[1..])
            .env(kind, rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", &world)
            .env("LOCAL_WORLD_SIZE", &world)
            .env("MASTER_ADDR", socket.ip().to_string())
            .env("MASTER_PORT", socket.port().to_string())
            .env("TALWEG_COORDINATOR", at.to_string())
            .env("TALWEG_SERVERS", self.servers.to_string())
            .env("TALWEG_CONSISTENCY", self.rule.to_string())
            .env("TALWEG_RESTARTS", restarts.to_string())
            .env("TALWEG_SECRET", secret)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        c.spawn().map_err(Error::io(format!("starting {:?}", command[0])))
    }
}

/// Prints what a process says, with its name before each line.
fn watch(mut p: Process) -> Process {
    fn follow(name: String, from: Option<impl Read + Send + 'static>) {
        let Some(from) = from else { return };
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n') {
                let Ok(line) = line else { break };
                say(&format!("[{name}] {}", String::from_utf8_lossy(&line)));
            }
        });
    }
    say(&format!("[launch] {} is process {}", p.name, p.child.id()));
    follow(p.name.clone(), p.child.stdout.take());
    follow(p.name.clone(), p.child.stderr.take());
    p
}

/// Prints a line; a reader that went away is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(vars: &[(&str, &str)]) -> Result<Option<Place>> {
        Place::from_env(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn a_process_alone_is_alone() {
        assert_eq!(place(&[]).unwrap(), None);
        assert_eq!(place(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]).unwrap(), None, "not asked to");
    }

    #[test]
    fn places_of_every_scheduler() {
        for [rank, world, _] in RANKS {
            let p = place(&[("TALWEG_PARALLEL", "1"), (rank, "2"), (world, "4"), ("MASTER_PORT", "1000")])
                .unwrap()
                .unwrap();
            assert_eq!((p.rank, p.world, p.keeps), (2, 4, false));
            assert_eq!(p.coordinator.to_string(), "127.0.0.1:1001");
        }
    }

    #[test]
    fn a_launched_worker_finds_its_store() {
        let vars = [
            ("TALWEG_COORDINATOR", "127.0.0.1:5"),
            ("RANK", "0"),
            ("WORLD_SIZE", "3"),
            ("TALWEG_SERVERS", "2"),
            ("TALWEG_CONSISTENCY", "backup:1"),
        ];
        let p = place(&vars).unwrap().unwrap();
        assert_eq!((p.rank, p.servers, p.rule, p.keeps), (0, 2, Rule::backup(1), false));
    }

    #[test]
    fn nonsense_is_refused() {
        let base = ("TALWEG_PARALLEL", "1");
        for bad in [[("RANK", "3"), ("WORLD_SIZE", "3")], [("RANK", "x"), ("WORLD_SIZE", "3")], [("A", ""), ("B", "")]]
        {
            assert!(place(&[base, bad[0], bad[1]]).is_err());
        }
    }
}
