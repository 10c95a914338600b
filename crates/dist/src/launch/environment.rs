//! Finds this process's rank in a job of another launcher, from the variables that launchers and
//! schedulers set.

use crate::store::server::FOLDER;
use crate::{AWAY_MAX, Disk, Endpoint, Error, Filter, Result, Rule, ServerOptions};
use net::{Address, Secret};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where a process stands in its job.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerConfig {
    /// Number of this worker.
    pub rank: u32,
    /// How many workers there are.
    pub world: u32,
    /// Number of this worker on its machine.
    pub local_rank: u32,
    /// Where the membership store is.
    pub coordinator: Endpoint,
    /// Whether this process has to keep the membership store itself: no other process does, and this
    /// is rank 0.
    pub keeps: bool,
    /// Whether lost workers are started again.
    pub replaces: bool,
    /// How many servers of the parameter store there are; 0: workers reduce among themselves.
    pub servers: u32,
    /// Servers that hold a copy of each partition.
    pub copies: usize,
    /// Consistency of the parameter store.
    pub rule: Rule,
    /// How gradients are packed on the wire, if they are.
    pub wire: Option<Filter>,
    /// The shared secret.
    pub secret: Option<Secret>,
}

/// Rank, number of ranks and local rank as the schedulers call them, in the order they are asked:
/// torchrun and its likes, DMLC, Slurm, Open MPI, MPICH, Kubeflow, indexed jobs.
const RANKS: [[&str; 3]; 8] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["DMLC_WORKER_ID", "DMLC_NUM_WORKER", "LOCAL_RANK"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    ["PET_NODE_RANK", "PET_NNODES", "LOCAL_RANK"],
    ["JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK"],
    ["JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "LOCAL_RANK"],
];

/// Returns the value of an environment variable.
pub trait Vars: Fn(&str) -> Option<String> {}
impl<F: Fn(&str) -> Option<String>> Vars for F {}

fn number(var: &impl Vars, name: &str) -> Result<Option<u32>> {
    let bad = |v: &String| Error::value(format!("{name} must be a number, not {v:?}"));
    var(name).map(|v| v.parse().map_err(|_| bad(&v))).transpose()
}
fn secret(var: &impl Vars) -> Result<Option<Secret>> {
    let text = var("TALWEG_SECRET").map(|s| Secret::new(&s)).transpose()?;
    Ok(match (text, var("TALWEG_TLS")) {
        (text, None) => text,
        (Some(text), Some(folder)) => Some(text.with_certificates(Path::new(&folder))?),
        (None, Some(folder)) => Some(Secret::certificates(Path::new(&folder))?),
    })
}
fn copies(var: &impl Vars) -> Result<usize> {
    Ok(number(var, "TALWEG_COPIES")?.unwrap_or(2) as usize)
}
fn rule(var: &impl Vars, workers: u32) -> Result<Rule> {
    let rule: Rule = var("TALWEG_CONSISTENCY").map_or(Ok(Rule::BSP), |t| t.parse())?;
    rule.check(workers as usize)?;
    Ok(rule)
}

impl WorkerConfig {
    /// Reads the environment: what `talweg launch` sets, or, if `TALWEG_PARALLEL=1` says that the
    /// processes belong together, what torchrun, DMLC's tracker, Slurm, MPI, Kubeflow or an
    /// indexed job sets. `None`: this process is alone.
    pub fn from_env(var: impl Vars) -> Result<Option<WorkerConfig>> {
        let launched = var("TALWEG_COORDINATOR");
        match var("TALWEG_PARALLEL").as_deref() {
            Some("1") => {}
            None | Some("" | "0") if launched.is_none() => return Ok(None),
            None | Some("" | "0") => {}
            Some(other) => return Err(Error::value(format!("TALWEG_PARALLEL must be 1 or 0, not {other:?}"))),
        }
        let mut place = None;
        for [rank, world, local] in RANKS {
            if let (Some(r), Some(w)) = (number(&var, rank)?, number(&var, world)?) {
                place = Some((r, w, number(&var, local)?.unwrap_or(r)));
                break;
            }
        }
        let Some((rank, world, local_rank)) = place else {
            if let Some([rank, world, _]) = RANKS.iter().find(|[r, ..]| var(r).is_some()) {
                return Err(Error::value(format!("{rank} is set, but {world} is not, which says how many there are")));
            }
            let names: Vec<String> = RANKS.iter().map(|[r, w, _]| format!("{r} and {w}")).collect();
            return Err(Error::value(format!("no rank is set: one of {} is expected", names.join(", "))));
        };
        if rank >= world {
            return Err(Error::value(format!("rank {rank} of {world} does not exist")));
        }
        let (coordinator, kept) = match (&launched, root(&var)?) {
            (Some(address), _) => (address.parse()?, true),
            (None, Some(root)) => (Endpoint::Embedded(root), true),
            (None, None) => (Endpoint::Embedded(beside_master(&var)?), false),
        };
        let servers = number(&var, "TALWEG_SERVERS")?.or(number(&var, "DMLC_NUM_SERVER")?);
        Ok(Some(WorkerConfig {
            rank,
            world,
            local_rank,
            coordinator,
            keeps: !kept && rank == 0,
            replaces: launched.is_some(),
            servers: servers.unwrap_or(0),
            copies: copies(&var)?,
            rule: rule(&var, world)?,
            wire: var("TALWEG_WIRE").map(|f| f.parse()).transpose()?,
            secret: secret(&var)?,
        }))
    }
}

/// What `talweg store-server` has to be.
pub enum Service {
    /// A server of the store.
    Server {
        /// What to serve.
        options: Box<ServerOptions>,
        /// Where the membership store is.
        at: Endpoint,
        /// How many servers there are.
        servers: u32,
        /// Servers that hold a copy of each partition.
        copies: usize,
    },
    /// The keeper of the membership store: DMLC's scheduler.
    Coordinator {
        /// Where to listen.
        at: Address,
        /// How many workers there are.
        workers: u32,
        /// How many servers there are.
        servers: u32,
        /// The shared secret.
        secret: Option<Secret>,
    },
}

impl Service {
    /// Reads what `talweg launch` or DMLC's tracker sets.
    pub fn from_env(var: impl Vars) -> Result<Service> {
        let need = |name: &str, other: &str| match number(&var, name)? {
            Some(n) => Ok(n),
            None => {
                let e =
                    format!("neither {name} nor {other} is set: `talweg launch` sets one, DMLC's tracker the other");
                number(&var, other)?.ok_or_else(|| Error::value(e))
            }
        };
        let workers = need("WORLD_SIZE", "DMLC_NUM_WORKER")?;
        let servers = || need("TALWEG_SERVERS", "DMLC_NUM_SERVER");
        let at = match (var("TALWEG_COORDINATOR"), root(&var)?) {
            (Some(address), _) => address.parse()?,
            (None, Some(at)) if var("DMLC_ROLE").as_deref() == Some("scheduler") => {
                return Ok(Service::Coordinator { at, workers, servers: servers()?, secret: secret(&var)? });
            }
            (None, Some(root)) => Endpoint::Embedded(root),
            (None, None) => return Err(Error::value("neither TALWEG_COORDINATOR nor DMLC_PS_ROOT_URI is set")),
        };
        let server = need("TALWEG_SERVER", "DMLC_SERVER_ID")?;
        let away = number(&var, "TALWEG_AWAY")?.map(|s| Duration::from_secs(s.into()));
        let listen = listen_toward(&at.address()?)?;
        let options = ServerOptions {
            secret: secret(&var)?,
            away_max: away.unwrap_or(AWAY_MAX),
            disk: disk(&var, server, servers()?)?,
            ..ServerOptions::new(server, workers as usize, listen, Arc::new(rule(&var, workers)?))
        };
        Ok(Service::Server { options: Box::new(options), at, servers: servers()?, copies: copies(&var)? })
    }
}

/// Where a server keeps what it holds, and whether it waits for the device.
fn disk(var: &impl Vars, server: u32, servers: u32) -> Result<Option<Disk>> {
    let Some(folder) = var("TALWEG_STORE_DIR") else { return Ok(None) };
    let flag = |name: &str| match var(name).as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(Error::value(format!("{name} must be 1 or 0, not {other:?}"))),
    };
    let (sync, is_fresh) = (flag("TALWEG_STORE_SYNC")?, flag("TALWEG_STORE_FRESH")?);
    let folder = Path::new(&folder).join(format!("{FOLDER}{server}"));
    // One that takes a lost one's place has a later number, and gets copies from those that live.
    let servers = (server < servers).then_some(servers);
    Ok(Some(Disk { sync, is_fresh, servers, ..Disk::new(folder) }))
}

/// DMLC's scheduler, which keeps the membership store there.
fn root(var: &impl Vars) -> Result<Option<Address>> {
    let (Some(host), Some(port)) = (var("DMLC_PS_ROOT_URI"), var("DMLC_PS_ROOT_PORT")) else { return Ok(None) };
    Ok(Some(format!("{host}:{port}").parse()?))
}

/// The port after the master's, which the scheduler's own store may have taken.
fn beside_master(var: &impl Vars) -> Result<Address> {
    let nodes = || var("SLURM_STEP_NODELIST").or(var("SLURM_JOB_NODELIST")).map(|list| first_node(&list));
    let host = var("MASTER_ADDR").or(var("PET_MASTER_ADDR")).or_else(nodes);
    let port = var("MASTER_PORT").or(var("PET_MASTER_PORT")).unwrap_or_else(|| "29500".to_string());
    let port: u16 = port.parse().map_err(|_| Error::value(format!("MASTER_PORT must be a port, not {port:?}")))?;
    let beside = port.checked_add(1).ok_or_else(|| Error::value("MASTER_PORT must be below 65535"))?;
    Ok(format!("{}:{beside}", host.unwrap_or_else(|| "127.0.0.1".to_string())).parse()?)
}

/// The first machine of a list as Slurm writes it: `gpu[07-09,12],cpu1`.
fn first_node(list: &str) -> String {
    match list.find(['[', ',']) {
        Some(at) if list[at..].starts_with('[') => {
            let number = list[at + 1..].split(['-', ',', ']']).next().unwrap_or("");
            format!("{}{number}", &list[..at])
        }
        Some(at) => list[..at].to_string(),
        None => list.to_string(),
    }
}

/// A free port on the interface that leads to `other`.
pub fn listen_toward(other: &Address) -> Result<Address> {
    let Address::Tcp(to) = other else { return Ok("127.0.0.1:0".parse()?) };
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    // Connecting a datagram socket sends nothing; it only chooses the way.
    let probe = UdpSocket::bind(any).and_then(|s| s.connect(to).and_then(|()| s.local_addr()));
    let mut own = probe.map_err(Error::io("finding the own address"))?;
    own.set_port(0);
    Ok(Address::Tcp(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Vars + 'a {
        move |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string())
    }
    fn place(set: &[(&str, &str)]) -> Result<Option<WorkerConfig>> {
        WorkerConfig::from_env(vars(set))
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
        let first = place(&[("TALWEG_PARALLEL", "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap().unwrap();
        assert!(first.keeps, "no other process would");
    }

    #[test]
    fn slurms_first_node_is_the_master() {
        assert_eq!(first_node("gpu[07-09,12],cpu1"), "gpu07");
        assert_eq!(first_node("a,b"), "a");
        assert_eq!(first_node("alone"), "alone");
        let p = [("TALWEG_PARALLEL", "1"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        let p = place(&[p[0], p[1], p[2], ("SLURM_JOB_NODELIST", "127.0.0.[3-4]")]).unwrap().unwrap();
        assert_eq!(p.coordinator.to_string(), "127.0.0.3:29501");
    }

    #[test]
    fn dmlc_has_a_scheduler() {
        let base = [
            ("TALWEG_PARALLEL", "1"),
            ("DMLC_PS_ROOT_URI", "127.0.0.1"),
            ("DMLC_PS_ROOT_PORT", "9000"),
            ("DMLC_NUM_WORKER", "2"),
            ("DMLC_NUM_SERVER", "3"),
        ];
        let with = |more: &[(&'static str, &'static str)]| [&base[..], more].concat();
        let worker = place(&with(&[("DMLC_ROLE", "worker"), ("DMLC_WORKER_ID", "0")])).unwrap().unwrap();
        assert_eq!((worker.servers, worker.keeps), (3, false));
        let service = |set: &[(&str, &str)]| Service::from_env(vars(set));
        match service(&with(&[("DMLC_ROLE", "scheduler")])).unwrap() {
            Service::Coordinator { at, workers, servers, .. } => {
                assert_eq!((at.to_string().as_str(), workers, servers), ("127.0.0.1:9000", 2, 3));
            }
            Service::Server { .. } => panic!("a scheduler keeps the membership store"),
        }
        match service(&with(&[("DMLC_ROLE", "server"), ("DMLC_SERVER_ID", "1")])).unwrap() {
            Service::Server { options, at, servers, copies } => {
                assert_eq!((options.server, at.to_string().as_str(), servers, copies), (1, "127.0.0.1:9000", 3, 2));
            }
            Service::Coordinator { .. } => panic!("a server serves"),
        }
        assert!(service(&[]).is_err());
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
    fn a_server_keeps_what_it_holds_where_it_is_told() {
        let base = [("TALWEG_COORDINATOR", "127.0.0.1:5"), ("WORLD_SIZE", "1"), ("TALWEG_SERVERS", "1")];
        let server = |more: &[(&'static str, &'static str)]| {
            let all = [&base[..], &[("TALWEG_SERVER", "0"), ("TALWEG_STORE_DIR", "/store")], more].concat();
            match Service::from_env(vars(&all))? {
                Service::Server { options, .. } => Ok(options),
                Service::Coordinator { .. } => Err(Error::value("a server serves")),
            }
        };
        let plain = server(&[]).unwrap();
        let disk = Disk { servers: Some(1), ..Disk::new("/store/server-0") };
        assert_eq!((plain.disk, plain.away_max), (Some(disk), AWAY_MAX));
        let other = server(&[("TALWEG_STORE_SYNC", "1"), ("TALWEG_AWAY", "90")]).unwrap();
        assert!(other.disk.unwrap().sync && other.away_max == Duration::from_secs(90));
        assert!(server(&[("TALWEG_STORE_SYNC", "yes")]).is_err());
        assert!(server(&[("TALWEG_STORE_FRESH", "1")]).unwrap().disk.unwrap().is_fresh);
    }

    #[test]
    fn certificates_that_are_not_there_are_missed() {
        let base = [("TALWEG_PARALLEL", "1"), ("RANK", "0"), ("WORLD_SIZE", "1")];
        let e = place(&[base[0], base[1], base[2], ("TALWEG_TLS", "/nowhere")]).unwrap_err().to_string();
        assert!(e.contains("/nowhere/ca.crt"), "{e}");
    }

    #[test]
    fn nonsense_is_refused() {
        let base = ("TALWEG_PARALLEL", "1");
        for bad in [[("RANK", "3"), ("WORLD_SIZE", "3")], [("RANK", "x"), ("WORLD_SIZE", "3")], [("A", ""), ("B", "")]]
        {
            assert!(place(&[base, bad[0], bad[1]]).is_err());
        }
        let e = place(&[base, ("SLURM_PROCID", "3")]).unwrap_err().to_string();
        assert!(e.contains("SLURM_PROCID is set, but SLURM_NTASKS is not"), "{e}");
        let e = place(&[("TALWEG_PARALLEL", "yes"), ("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap_err().to_string();
        assert!(e.contains("TALWEG_PARALLEL must be 1 or 0, not \"yes\""), "{e}");
    }
}
