//! What the steady state allocates: sums nothing, the store nothing of a tensor's size. A test file
//! of its own with one test, as it counts what the whole process allocates.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Element, Group};
use talweg_dist::{Add, Coordinator, Hello, Host, HostOptions, Reducer, Registrar, Roster, Rule, Secret, Store, Table};

struct Counting;
static CALLS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

const ROUNDS: usize = 200;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
/// Allocations and bytes of one round of `f`, of the whole process, after some rounds.
fn costs(mut f: impl FnMut()) -> (f64, f64) {
    (0..20).for_each(|_| f());
    let before = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    (0..ROUNDS).for_each(|_| f());
    let after = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    ((after.0 - before.0) as f64 / ROUNDS as f64, (after.1 - before.1) as f64 / ROUNDS as f64)
}

#[test]
fn the_steady_state_allocates_little() {
    a_sum_over_ranks_allocates_nothing();
    a_mean_over_workers_allocates_nothing();
    a_step_in_the_store_allocates_nothing_of_a_tensors_size();
}

fn a_sum_over_ranks_allocates_nothing() {
    for len in [1, 1_000, 300_000] {
        let mut ranks = Group::in_process(2).unwrap().into_iter();
        let (mut a, mut b) = (ranks.next().unwrap(), ranks.next().unwrap());
        let go = Arc::new(Barrier::new(2));
        let with = go.clone();
        let other = thread::spawn(move || {
            let mut x = vec![1.0f32; len];
            for _ in 0..20 + ROUNDS {
                with.wait();
                b.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Max, soon()).unwrap();
            }
        });
        let mut x = vec![2.0f32; len];
        let (calls, bytes) = costs(|| {
            go.wait();
            a.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Max, soon()).unwrap();
        });
        other.join().unwrap();
        println!("sum of {len} elements: {calls:.2} allocations, {bytes:.0} bytes");
        assert!(calls < 0.1, "{len} elements: {calls} allocations, {bytes} bytes");
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

fn a_mean_over_workers_allocates_nothing() {
    let len = 50_000;
    let c = Arc::new(coordinator(2, 0));
    let join = |c: &Coordinator, rank| {
        let at = "127.0.0.1:0".parse().unwrap();
        Reducer::join(rank, &at, registrar(c, "worker", rank), secret(), Duration::from_secs(60)).unwrap()
    };
    let there = c.clone();
    let other = thread::spawn(move || {
        let mut r = join(&there, 1);
        let mut x = vec![1.0; len];
        (0..20 + ROUNDS).for_each(|_| r.mean(&mut x).unwrap());
    });
    let mut r = join(&c, 0);
    let mut x = vec![2.0; len];
    let (calls, bytes) = costs(|| r.mean(&mut x).unwrap());
    other.join().unwrap();
    println!("mean of {len} elements: {calls:.2} allocations, {bytes:.0} bytes");
    // Heartbeats of the processes allocate a little now and then.
    assert!(calls < 1.0 && bytes < 1_000.0, "{calls} allocations, {bytes} bytes");
}

fn a_step_in_the_store_allocates_nothing_of_a_tensors_size() {
    let c = coordinator(1, 2);
    for server in 0..2 {
        let (listen, rule) = ("127.0.0.1:0".parse().unwrap(), Arc::new(Rule::BSP));
        let options = HostOptions { server, workers: 1, listen, secret: secret(), rule, disk: None, saver: None };
        let registrar = registrar(&c, "server", server);
        thread::spawn(move || Host::run(options, registrar, || Ok(Box::new(Add)), |_| {}));
    }
    let mut store = Store::join(0, false, registrar(&c, "worker", 0), secret(), Duration::from_secs(60)).unwrap();
    // Eight blocks of 256 KiB.
    let t = Table::new(0, 8, 1 << 16, 1 << 18).unwrap();
    let (ones, mut out) = (vec![1.0; 8 << 16], vec![0.0; 8 << 16]);
    store.create(&t, &out).unwrap();
    let (calls, bytes) = costs(|| {
        store.push(&t, &ones, 0.0).unwrap();
        store.clock().unwrap();
        store.pull_into(&[t], &mut [&mut out]).unwrap();
    });
    println!("a step of 8 blocks, two copies: {calls:.1} allocations, {bytes:.0} bytes");
    assert!(bytes < 4.0 * out.len() as f64 / 20.0, "{calls} allocations, {bytes} bytes");
}
