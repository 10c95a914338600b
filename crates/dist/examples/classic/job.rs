//! A store in threads, workers that use it, and random numbers.

use net::sim::Random;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::{
    Add, Consistency, Controller, Coordinator, EmbeddedCoordinator, Error, Hello, Member, Result, Rule, ServerOptions,
    Store, StoreServer, Table,
};

/// Workers of every job here.
pub const WORKERS: u32 = 3;
const SERVERS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `work` on every worker, with its number and its line to the store; returns what each
/// returned.
pub fn run<T: Send + 'static>(
    rule: Rule,
    work: impl Fn(u32, &mut Store) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let soon = || Instant::now() + PATIENCE;
    let controller = Controller::new(WORKERS as usize, SERVERS as usize, 1);
    let coordinator = Arc::new(EmbeddedCoordinator::start(&"127.0.0.1:0".parse()?, None, controller, |_| {})?);
    let connect =
        |c: &EmbeddedCoordinator, role: &str, id| Member::connect(c.address(), &Hello::new(role, id), None, soon());
    for server in 0..SERVERS {
        let member = connect(&coordinator, "server", server)?;
        let (listen, workers) = ("127.0.0.1:0".parse()?, WORKERS as usize);
        let options = ServerOptions::new(server, workers, listen, Arc::new(rule));
        thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |e| eprintln!("{e}")));
    }
    let work = Arc::new(work);
    let threads: Vec<_> = (0..WORKERS)
        .map(|w| {
            let (coordinator, work) = (coordinator.clone(), work.clone());
            thread::spawn(move || {
                let line = Member::connect(coordinator.address(), &Hello::new("worker", w), None, soon())?;
                let mut store = Store::join(w, rule.drops(), line, None, PATIENCE)?;
                store.reuse(&rule);
                let done = work(w, &mut store)?;
                store.wait()?;
                // The others no longer wait for this worker.
                coordinator.left(w, true)?;
                Ok(done)
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().map_err(|_| Error::value("a worker panicked"))?).collect()
}

/// What all workers have added to a table in the step before this one, when every worker does the same
/// steps: the table only grows, so it is the difference to what was there.
pub struct Sums {
    table: Table,
    before: Vec<f32>,
}
impl Sums {
    /// A table of sums that begins with zeros.
    pub fn create(store: &mut Store, id: u32, rows: usize, width: usize) -> Result<Sums> {
        let table = Table::new(id, rows, width, 1 << 20)?;
        store.create(&table, &vec![0.0; rows * width])?;
        Ok(Sums { table, before: vec![0.0; rows * width] })
    }
    /// Adds this worker's part, ends the step and returns the sum over workers.
    pub fn reduce(&mut self, store: &mut Store, mine: &[f32]) -> Result<Vec<f32>> {
        store.push(&self.table, mine, 0.0)?;
        store.clock()?;
        let now = store.pull(&[self.table])?.remove(0);
        let sum = now.iter().zip(&self.before).map(|(a, b)| a - b).collect();
        self.before = now;
        Ok(sum)
    }
}

/// A number in [0, 1).
pub fn uniform(r: &mut Random) -> f32 {
    (r.bits() >> 40) as f32 / (1u64 << 24) as f32
}
/// A normally distributed number.
pub fn normal(r: &mut Random) -> f32 {
    let (u, v) = (1.0 - uniform(r), uniform(r));
    (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
}
