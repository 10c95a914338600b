//! A step of an optimizer on the servers of the parameter store allocates nothing, and does what the
//! same rule does in one process. A test file of its own with one test, as it counts what the whole
//! process allocates.

use cpu as _;
use dist::{Apply, Controller, EmbeddedCoordinator, Hello, Member, ServerOptions, Store, StoreServer, Table};
use nn::optim::{Adam, Rule, Sgd};

use ir::Shape;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_parallel::{RuleText, Rules, rule_key};
use testkit::allocations::{Counting, least};

#[global_allocator]
static COUNTING: Counting = Counting;

const LEN: usize = 3_000;
const WARM: usize = 50;
const TRIES: usize = 40;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
fn member(c: &EmbeddedCoordinator, role: &str, id: u32) -> Member {
    Member::connect(c.address(), &Hello::new(role, id), None, soon()).unwrap()
}

/// Steps of two workers that push the same gradient to a store of two servers with two copies.
fn steps(rule: &dyn Rule, name: &str, expected: impl Fn(usize) -> f64) {
    let c = Arc::new(
        EmbeddedCoordinator::start(&"127.0.0.1:0".parse().unwrap(), None, Controller::new(2, 2, 2), |_| {}).unwrap(),
    );
    let text = RuleText::of(rule, &Shape::from([LEN]), 0.0).unwrap().encode();
    member(&c, "worker", 0).set(&rule_key(0, LEN), &text, soon()).unwrap();
    for server in 0..2 {
        let (listen, rule) = ("127.0.0.1:0".parse().unwrap(), Arc::new(dist::Rule::BSP));
        let options = ServerOptions::new(server, 2, listen, rule);
        let (line, c) = (member(&c, "server", server), c.clone());
        let rules = move || Ok(Box::new(Rules::new(member(&c, "server", server), None)) as Box<dyn Apply>);
        thread::spawn(move || StoreServer::run(options, line, rules, |text| eprintln!("{text}")));
    }
    let table = Table::new(0, LEN, 1, 4 * LEN).unwrap();
    let work = move |c: &EmbeddedCoordinator, rank: u32, round: &mut dyn FnMut(&mut dyn FnMut())| {
        let line = member(c, "worker", rank);
        let mut store = Store::join(rank, false, line, None, Duration::from_secs(60)).unwrap();
        let (half, mut value) = (vec![0.5; LEN], vec![1.0; LEN]);
        store.create(&table, &value).unwrap();
        round(&mut || store.push_pull(&[table], &[&half], 0.01, &mut [&mut value]).unwrap());
        value
    };
    let all = WARM + TRIES;
    let there = c.clone();
    let other = thread::spawn(move || work(&there, 1, &mut |step| (0..all).for_each(|_| step())));
    let value = work(&c, 0, &mut |step| {
        (0..WARM).for_each(|_| step());
        let cost = least(TRIES, 1, step);
        println!("{name}: {cost:?} a step");
        assert_eq!(cost.calls, 0, "{name}: {cost:?} a step");
    });
    other.join().unwrap();
    let want = expected(all);
    assert!(value.iter().all(|x| (f64::from(*x) - want).abs() < 1e-4), "{name}: {} instead of {want}", value[0]);
}

#[test]
fn an_optimizer_on_the_servers_allocates_nothing() {
    steps(&Sgd::default(), "SGD", |n| 1.0 - 0.01 * 0.5 * n as f64);
    // Of a gradient that does not change, Adam makes steps of the learning rate.
    steps(&Adam::default(), "Adam", |n| 1.0 - 0.01 * n as f64);
}
