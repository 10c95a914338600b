//! Several jobs in one process: each worker is a thread with a job of its own, and no job sees another's exchanges.

use cpu as _;
use dist::launch::WorkerConfig;
use dist::{Apply, Controller, EmbeddedCoordinator, Endpoint, Hello, Member, Rule, ServerOptions, StoreServer};
use nn::optim::{Optimizer, Sgd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_parallel::{self as parallel, Group, Job, Rules, Table};
use tensor::{Combine, Result, Tensor, Variable};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
fn coordinator(workers: usize, servers: usize) -> Arc<EmbeddedCoordinator> {
    let (at, controller) = ("127.0.0.1:0".parse().unwrap(), Controller::new(workers, servers, 1));
    Arc::new(EmbeddedCoordinator::start(&at, None, controller, |_| {}).unwrap())
}
fn config(c: &EmbeddedCoordinator, rank: u32, world: u32, servers: u32) -> WorkerConfig {
    WorkerConfig {
        rank,
        world,
        local_rank: rank,
        coordinator: Endpoint::Embedded(c.address().clone()),
        keeps: false,
        replaces: false,
        servers,
        copies: 1,
        rule: Rule::BSP,
        wire: None,
        secret: None,
    }
}
/// A server of a store, until the process ends.
fn serve(c: &Arc<EmbeddedCoordinator>, workers: usize) {
    let c = c.clone();
    let member = move || Member::connect(c.address(), &Hello::new("server", 0), None, soon());
    let options = ServerOptions::new(0, workers, "127.0.0.1:0".parse().unwrap(), Arc::new(Rule::BSP));
    thread::spawn(move || {
        let first = member().unwrap();
        let apply = move || Ok(Box::new(Rules::new(member()?, None)) as Box<dyn Apply>);
        StoreServer::run(options, first, apply, |_| {})
    });
}
/// Two steps of gradient descent at this gradient; returns the weight.
fn train(gradient: f32) -> Result<f32> {
    let w = Variable::new("w", Tensor::from([1.0f32]))?;
    let optimizer = Optimizer::new(Sgd { lr: 0.1, ..Sgd::default() }, &[w.clone()][..])?;
    for _ in 0..2 {
        (w.tensor() * gradient).sum(..).backward()?;
        optimizer.step()?;
        // A step in the store that no value depends on would not be taken.
        w.tensor().item::<f32>()?;
    }
    w.tensor().item()
}

#[test]
fn jobs_of_one_process_do_not_meet() {
    // Two jobs that all-reduce and one with a parameter store, of two workers each.
    let jobs = [(0, [1.0, 3.0]), (0, [10.0, 30.0]), (1, [5.0, 7.0])];
    let mut threads = Vec::new();
    for (servers, gradients) in jobs {
        let c = coordinator(2, servers);
        if servers > 0 {
            serve(&c, 2);
        }
        for (rank, gradient) in gradients.into_iter().enumerate() {
            let c = c.clone();
            threads.push(thread::spawn(move || {
                let job = Job::join(config(&c, rank as u32, 2, servers as u32)).unwrap();
                job.scope(|| {
                    assert_eq!((parallel::rank().unwrap(), parallel::world().unwrap()), (rank, 2));
                    let w = train(gradient).unwrap();
                    let sum = Group::world().unwrap().all_reduce(&Tensor::from(gradient), Combine::Sum);
                    (w, sum.item::<f32>().unwrap())
                })
            }));
        }
    }
    let got: Vec<(f32, f32)> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    for ((_, gradients), got) in jobs.iter().zip(got.chunks(2)) {
        let sum: f32 = gradients.iter().sum();
        let want = (1.0 - 0.2 * sum / 2.0, sum);
        assert!(got.iter().all(|g| (g.0 - want.0).abs() < 1e-5 && g.1 == want.1), "{got:?} instead of {want:?}");
    }
}

#[test]
fn a_thread_outside_of_every_job_is_alone() {
    let (one, other) = (Job::alone(), Job::alone());
    let table = one.scope(|| Table::new(&Tensor::zeros([2]))).unwrap();
    table.push(&Tensor::ones([2])).unwrap();
    other.scope(parallel::clock).unwrap();
    assert_eq!(table.pull().unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0], "another job's clock");
    one.scope(parallel::clock).unwrap();
    assert_eq!(table.pull().unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
    let inner = one.scope(|| other.scope(parallel::step)).unwrap();
    assert_eq!((inner, one.scope(parallel::step).unwrap()), (1, 1));
    assert_eq!(parallel::world().unwrap(), 1);
}
