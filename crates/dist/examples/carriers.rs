//! The back ends of collectives beside each other, between the processes that `mpirun` starts:
//! ```text
//! cargo build --release -p talweg-dist --features mpi --example carriers
//! mpirun -n 2 target/release/examples/carriers
//! ```
//! Rank 0 prints the median time of an all-reduce of 4 bytes and of 64 MiB, and bytes of data over
//! time. `TALWEG_LINK=socket` lets the embedded links use sockets instead of shared memory.

use std::sync::Arc;
use std::time::{Duration, Instant};
use talweg_dist::collective::{
    Backend, Combine, Communicator, Element, Group, JoinOptions, Kind, Operation, Signature, join,
};
use talweg_dist::{Controller, Coordinator, EmbeddedCoordinator, Error, Hello, Member, Result};

/// Bytes of the long one, and how often each is done.
const LONG: usize = 64 << 20;
const TIMES: [(usize, usize); 2] = [(4, 1000), (LONG, 9)];

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
fn number(name: &str) -> Result<usize> {
    let found = std::env::var(name).ok().and_then(|n| n.parse().ok());
    found.ok_or_else(|| Error::value(format!("{name} is not set: start this with mpirun")))
}

fn main() -> Result<()> {
    let (rank, world) = (number("OMPI_COMM_WORLD_RANK")?, number("OMPI_COMM_WORLD_SIZE")?);
    let port = std::env::var("MASTER_PORT").unwrap_or_else(|_| "29411".to_string());
    let at: talweg_dist::Address = format!("127.0.0.1:{port}").parse()?;
    let _center: Option<Arc<dyn Coordinator>> = if rank == 0 {
        Some(Arc::new(EmbeddedCoordinator::start(&at, None, Controller::new(world, 0, 1), |_| {})?))
    } else {
        None
    };
    let group = Group::new(&(0..world).collect::<Vec<_>>(), rank, world)?;
    for by in [Backend::MeshCommunicator, Backend::Mpi, Backend::MeshCommunicator, Backend::Mpi] {
        let member = Member::connect(&at, &Hello::new("worker", rank as u32), None, soon())?;
        let listen = "127.0.0.1:0".parse()?;
        let mut communicator = join(by, JoinOptions { rank, world, listen, member, secret: None, deadline: soon() })?;
        for (bytes, times) in TIMES {
            let t = median(&mut *communicator, &group, bytes, times)?;
            if rank == 0 {
                let (us, speed) = (t.as_secs_f64() * 1e6, bytes as f64 / t.as_secs_f64() / 1e9);
                println!("{by:?}: all-reduce of {bytes} bytes, {world} ranks: {us:.1} µs, {speed:.2} GB/s");
            }
        }
    }
    Ok(())
}

fn median(communicator: &mut dyn Communicator, group: &Group, bytes: usize, times: usize) -> Result<Duration> {
    let mut words = vec![0u32; bytes / 4];
    let signature = Signature::new(Kind::AllReduce, Element::F32, &[bytes / 4]).by(Combine::Sum);
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times + 2 {
        let (start, operation) =
            (Instant::now(), Operation { group, signature, element: Element::F32, deadline: soon() });
        communicator.all_reduce(&operation, bytemuck::cast_slice_mut(&mut words), Combine::Sum)?;
        taken.push(start.elapsed());
    }
    taken.drain(..2);
    taken.sort();
    Ok(taken[times / 2])
}
