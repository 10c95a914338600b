//! The steady state allocates nothing: sums over ranks, means over workers, and steps in the store,
//! at both ends, through memory and over sockets. A test file of its own with one test, as it counts
//! what the whole process allocates.

use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Element, Group};
use talweg_dist::{Add, Coordinator, Hello, Host, HostOptions, Reducer, Registrar, Roster, Rule, Secret, Store, Table};
use testkit::allocations::{Counting, least};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Rounds before it counts, tries, and rounds of a try. Heartbeats allocate a little five times a
/// second, so that most tries see none of them; what a round allocates, every try sees.
const WARM: usize = 100;
const TRIES: usize = 60;
const ROUNDS: usize = 4;
const ALL: usize = WARM + TRIES * ROUNDS;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
/// Fails if a round of `f` allocates, anywhere in the process.
fn check(what: &str, mut f: impl FnMut()) {
    (0..WARM).for_each(|_| f());
    let cost = least(TRIES, ROUNDS, f);
    println!("{what}: {cost:?} in {ROUNDS} rounds");
    assert_eq!(cost.calls, 0, "{what}: {cost:?} in {ROUNDS} rounds");
}

#[test]
fn the_steady_state_allocates_nothing() {
    if std::env::var_os("TALWEG_LINK").is_none() {
        // How links go is said by the environment, so another process has to do it.
        let me = std::env::current_exe().unwrap();
        let done = Command::new(me).arg("--nocapture").env("TALWEG_LINK", "socket").status().unwrap();
        assert!(done.success(), "over sockets");
    }
    sums_over_ranks();
    means_over_workers();
    for rule in ["bsp", "ssp:2", "async"] {
        steps_in_the_store(rule.parse().unwrap(), 1, 20_000);
        steps_in_the_store(rule.parse().unwrap(), 2, 1);
    }
}

fn sums_over_ranks() {
    for len in [1, 1_000, 300_000] {
        let mut ranks = Group::in_process(2).unwrap().into_iter();
        let (mut a, mut b) = (ranks.next().unwrap(), ranks.next().unwrap());
        let go = Arc::new(Barrier::new(2));
        let with = go.clone();
        let other = thread::spawn(move || {
            let mut x = vec![1.0f32; len];
            for _ in 0..ALL {
                with.wait();
                b.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Max, soon()).unwrap();
            }
        });
        let mut x = vec![2.0f32; len];
        check(&format!("a sum of {len} elements"), || {
            go.wait();
            a.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Max, soon()).unwrap();
        });
        other.join().unwrap();
    }
}

fn secret() -> Option<Secret> {
    Some(Secret::new("a secret of these tests").unwrap())
}
fn coordinator(workers: usize, servers: usize) -> Coordinator {
    let at = "127.0.0.1:0".parse().unwrap();
    Coordinator::start(&at, secret(), Roster::new(workers, servers, 2), |_| {}).unwrap()
}
fn registrar(c: &Coordinator, role: &str, id: u32) -> Registrar {
    Registrar::connect(c.address(), &Hello::new(role, id), secret(), soon()).unwrap()
}

fn means_over_workers() {
    // More than a piece, and more than any socket's buffer.
    let len = 700_000;
    let c = Arc::new(coordinator(2, 0));
    let join = |c: &Coordinator, rank| {
        let at = "127.0.0.1:0".parse().unwrap();
        Reducer::join(rank, &at, registrar(c, "worker", rank), secret(), Duration::from_secs(60)).unwrap()
    };
    let there = c.clone();
    let other = thread::spawn(move || {
        let mut r = join(&there, 1);
        let mut x = vec![1.0; len];
        (0..ALL).for_each(|_| r.mean(&mut x).unwrap());
    });
    let mut r = join(&c, 0);
    let mut x = vec![2.0; len];
    check("a mean over workers", || r.mean(&mut x).unwrap());
    other.join().unwrap();
    assert!(x.iter().all(|x| *x == 1.5));
}

/// One worker's steps: pushes, replication, acknowledgements and reads of eight blocks.
fn steps(store: &mut Store, t: &Table, n: usize, mut round: impl FnMut(&mut dyn FnMut())) {
    let (ones, mut out) = (vec![1.0; n], vec![0.0; n]);
    store.create(t, &out).unwrap();
    round(&mut || {
        store.push(t, &ones, 0.0).unwrap();
        store.clock().unwrap();
        store.pull_into(&[*t], &mut [&mut out]).unwrap();
        store.push_pull(&[*t], &[&ones], 0.0, &mut [&mut out]).unwrap();
    });
}

fn steps_in_the_store(rule: Rule, workers: u32, width: usize) {
    let c = Arc::new(coordinator(workers as usize, 2));
    for server in 0..2 {
        let (listen, rule) = ("127.0.0.1:0".parse().unwrap(), Arc::new(rule));
        let workers = workers as usize;
        let options = HostOptions { server, workers, listen, secret: secret(), rule, disk: None, saver: None };
        let registrar = registrar(&c, "server", server);
        thread::spawn(move || Host::run(options, registrar, || Ok(Box::new(Add)), |_| {}));
    }
    let join = |c: &Coordinator, rank| {
        Store::join(rank, false, registrar(c, "worker", rank), secret(), Duration::from_secs(60)).unwrap()
    };
    let t = Table::new(0, 8, width, 4 * width).unwrap();
    let others: Vec<_> = (1..workers)
        .map(|rank| {
            let c = c.clone();
            thread::spawn(move || steps(&mut join(&c, rank), &t, 8 * width, |f| (0..ALL).for_each(|_| f())))
        })
        .collect();
    let what = format!("{rule}: a step of {workers} workers, 8 blocks of {width}");
    steps(&mut join(&c, 0), &t, 8 * width, |f| check(&what, f));
    others.into_iter().for_each(|o| o.join().unwrap());
}
