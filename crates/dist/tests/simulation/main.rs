//! The store under a seeded bad network: messages are lost, doubled, late and overtaken, links are
//! cut, workers and servers crash, servers are believed dead that are not. The code is the code
//! that serves real sockets. Every read is checked against the staleness bound by its content:
//! each table has a row for each worker that counts the worker's steps.
//!
//! `TALWEG_SEEDS=17000 cargo test -p talweg-dist --test simulation --release storm` is the long run.

mod world;

use talweg_dist::Rule;
use world::{Plan, World};

/// Seeds to try.
fn seeds() -> u64 {
    std::env::var("TALWEG_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(100)
}

fn check(rule: &str, plan: impl Fn(u64) -> Plan) {
    let rule: Rule = rule.parse().unwrap();
    let mut reads = 0;
    for seed in 0..seeds() {
        let world = World::run(seed, rule, &plan(seed));
        reads += world.reads;
        world.check_counts();
        world.check_copies();
    }
    println!("{rule}: {reads} reads checked over {} seeds", seeds());
}

#[test]
fn bsp_in_a_storm() {
    check("bsp", Plan::storm);
}
#[test]
fn ssp_in_a_storm() {
    check("ssp:2", Plan::storm);
}
#[test]
fn async_in_a_storm() {
    check("async", Plan::storm);
}
#[test]
fn backup_workers_in_a_storm() {
    check("backup:1", Plan::storm);
}

#[test]
fn bsp_with_crashes_ends_with_the_same_bits() {
    let calm = World::run(0, Rule::BSP, &Plan::calm());
    let expected = calm.weights();
    for seed in 1..seeds() {
        let world = World::run(seed, Rule::BSP, &Plan::storm(seed));
        assert_eq!(world.weights(), expected, "seed {seed}");
    }
}

#[test]
fn partitions_move_while_everybody_works() {
    let expected = World::run(0, Rule::BSP, &Plan::calm()).weights();
    let mut moves = 0;
    for seed in 0..seeds() {
        let plan = Plan { additions: 2, removals: 1, ..Plan::storm(seed) };
        let world = World::run(seed, Rule::BSP, &plan);
        world.check_counts();
        world.check_copies();
        assert_eq!(world.weights(), expected, "seed {seed}");
        moves += world.moves;
    }
    assert!(moves > seeds(), "{moves} maps moved something");
}

#[test]
fn lazy_and_eager_reads_in_a_storm() {
    check("ssp:3:lazy", Plan::storm);
    check("ssp:3:eager", Plan::storm);
}

/// Under a bound of 8 and without a straggler, who would keep everybody behind, workers that the
/// store keeps informed read what is less than half as old as what workers read who ask only when
/// they must.
#[test]
fn eager_reads_are_fresher_than_lazy_ones() {
    let mean = |rule: &str| {
        let (mut behind, mut reads, mut values) = (0, 0, 0);
        for seed in 0..seeds() / 4 {
            let plan = Plan { steps: 60, ..Plan::calm() };
            let world = World::run(seed, rule.parse().unwrap(), &plan);
            assert!(world.ahead_most <= 8, "{}", world.ahead_most);
            (behind, reads, values) = (behind + world.behind.0, reads + world.behind.1, values + world.values);
        }
        println!("{rule}: {:.2} steps behind in the mean, {values} values sent", behind as f64 / reads as f64);
        behind as f64 / reads as f64
    };
    let (fresh, lazy, eager) = (mean("ssp:8"), mean("ssp:8:lazy"), mean("ssp:8:eager"));
    assert!(eager <= lazy / 2.0, "eager {eager:.2}, lazy {lazy:.2}, asked each time {fresh:.2}");
}

#[test]
fn ssp_0_is_bsp() {
    let run = |rule: &str| World::run(3, rule.parse().unwrap(), &Plan::storm(3));
    let (a, b) = (run("ssp:0"), run("bsp"));
    assert_eq!((a.weights(), a.reads, a.events), (b.weights(), b.reads, b.events));
}

#[test]
fn ssp_lets_workers_run_ahead_and_no_further() {
    let plan = Plan { slow_worker: true, ..Plan::calm() };
    let world = World::run(5, Rule::ssp(3), &plan);
    assert_eq!(world.ahead_most, 3, "the bound is used in full and not exceeded");
    let world = World::run(5, Rule::ASYNC, &plan);
    assert!(world.ahead_most > 3, "{}", world.ahead_most);
}

#[test]
fn a_seed_is_a_run() {
    let run = || World::run(11, Rule::ssp(1), &Plan::storm(11));
    let (a, b) = (run(), run());
    assert_eq!((a.events, a.weights()), (b.events, b.weights()));
}
