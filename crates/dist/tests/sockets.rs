//! The store and reductions over real sockets, with threads in the place of processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::{
    Add, Apply, Consistency, Controller, Coordinator, EmbeddedCoordinator, Hello, Member, Reducer, Result, Rule,
    Secret, ServerOptions, Store, StoreServer, Table, Target, Update,
};

const SECRET: &str = "a secret of these tests";
const PATIENCE: Duration = Duration::from_secs(60);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}
fn secret() -> Option<Secret> {
    Some(Secret::new(SECRET).unwrap())
}
fn coordinator(workers: usize, servers: usize) -> EmbeddedCoordinator {
    let at = "127.0.0.1:0".parse().unwrap();
    EmbeddedCoordinator::start(&at, secret(), Controller::new(workers, servers, 2), |_| {}).unwrap()
}
fn member(c: &EmbeddedCoordinator, role: &str, id: u32) -> Member {
    Member::connect(c.address(), &Hello::new(role, id), secret(), soon()).unwrap()
}
/// A store with servers in threads.
fn servers(c: &EmbeddedCoordinator, workers: usize, servers: u32, rule: Rule) {
    servers_that(c, workers, servers, rule, |_| Box::new(|| Ok(Box::new(Add))));
}
/// What makes the update code of a server's partitions.
type Make = Box<dyn Fn() -> Result<Box<dyn Apply>> + Send>;
fn servers_that(c: &EmbeddedCoordinator, workers: usize, servers: u32, rule: Rule, apply: impl Fn(u32) -> Make) {
    for server in 0..servers {
        let member = member(c, "server", server);
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions { secret: secret(), ..ServerOptions::new(server, workers, listen, Arc::new(rule)) };
        let apply = apply(server);
        thread::spawn(move || StoreServer::run(options, member, apply, |_| {}));
    }
}
fn join(c: &EmbeddedCoordinator, worker: u32, rule: Rule) -> Store {
    let mut store = Store::join(worker, rule.drops(), member(c, "worker", worker), secret(), PATIENCE).unwrap();
    store.reuse(&rule);
    store
}

#[test]
fn the_membership_store_keeps_adds_compares_and_waits() {
    let c = coordinator(1, 0);
    let (a, b) = (member(&c, "worker", 0), member(&c, "other", 1));
    assert_eq!(a.get("k", soon()).unwrap().1, None);
    let waiting = thread::spawn(move || b.wait("k", 0, soon()).unwrap().1);
    a.set("k", b"v", soon()).unwrap();
    assert_eq!(waiting.join().unwrap(), b"v");
    assert_eq!(a.add("n", 4, soon()).unwrap() + a.add("n", -1, soon()).unwrap(), 7);
    assert_eq!(a.compare_set("k", Some(b"no"), b"w", soon()).unwrap().unwrap(), b"v");
    assert_eq!(a.compare_set("k", Some(b"v"), b"w", soon()).unwrap().unwrap(), b"w");
    let late = a.wait("never", 0, Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(late.to_string().contains("deadline"), "{late}");
    // The answer that was given up does not confuse the next question.
    assert_eq!(a.get("k", soon()).unwrap().1.unwrap(), b"w");
}

#[test]
fn other_secrets_cannot_join() {
    let c = coordinator(1, 0);
    let other = Some(Secret::new("another secret altogether").unwrap());
    assert!(Member::connect(c.address(), &Hello::new("worker", 0), other, soon()).is_err());
}

/// Workers add 1 to every element in each of ten steps.
fn count(rule: Rule, workers: u32) {
    let c = Arc::new(coordinator(workers as usize, 2));
    servers(&c, workers as usize, 2, rule);
    let threads: Vec<_> = (0..workers)
        .map(|w| {
            let c = c.clone();
            thread::spawn(move || -> Result<Vec<f32>> {
                let mut store = join(&c, w, rule);
                // Several blocks, on both servers, and the last one shorter.
                let dense = Table::new(0, 1_000, 3, 4_096)?;
                let rows = Table::new(1, 50, 2, 64)?;
                store.create(&dense, &[0.5; 3_000])?;
                store.create(&rows, &[0.0; 100])?;
                for step in 0..10 {
                    let seen = store.pull(&[dense])?.remove(0);
                    if rule == Rule::BSP {
                        assert!(seen.iter().all(|x| *x == 0.5 + (step * workers) as f32), "{}", seen[0]);
                    }
                    assert!(rule.bound.is_none_or(|b| store.staleness() <= b));
                    store.push(&dense, &[1.0; 3_000], 0.0)?;
                    store.push_rows(&rows, &[49, 7], &[1.0, 2.0, 3.0, 4.0], 0.0)?;
                    store.clock()?;
                }
                store.wait()?;
                let rows = store.pull_rows(&rows, &[7, 0, 49]);
                c.left(w, true)?;
                rows
            })
        })
        .collect();
    let total = (10 * workers) as f32;
    for t in threads {
        let rows = t.join().unwrap().unwrap();
        if rule == Rule::BSP {
            assert_eq!(rows, [3.0 * total, 4.0 * total, 0.0, 0.0, total, 2.0 * total]);
        }
    }
}

#[test]
fn bsp_over_sockets() {
    count(Rule::BSP, 3);
}
#[test]
fn ssp_over_sockets() {
    count(Rule::ssp(2), 3);
}
#[test]
fn eager_ssp_over_sockets() {
    count("ssp:2:eager".parse().unwrap(), 3);
    count("ssp:2:lazy".parse().unwrap(), 2);
}
#[test]
fn async_over_sockets() {
    count(Rule::ASYNC, 2);
}

/// Workers at their own pace: a read after every worker has settled sees every update, also from
/// what it would otherwise have read again, and does not wait for one that will not come back.
#[test]
fn the_final_state_has_everybodys_updates() {
    for rule in ["async", "ssp:3", "ssp:3:lazy", "ssp:3:eager"] {
        let (rule, c): (Rule, _) = (rule.parse().unwrap(), Arc::new(coordinator(4, 2)));
        servers(&c, 4, 2, rule);
        let threads: Vec<_> = (0..3)
            .map(|w| {
                let c = c.clone();
                thread::spawn(move || -> Result<f32> {
                    let mut store = join(&c, w, rule);
                    let t = Table::new(0, 8, 1, 4)?;
                    store.create(&t, &[0.0; 8])?;
                    for _ in 0..3 {
                        thread::sleep(Duration::from_millis(40 * u64::from(w)));
                        store.pull(&[t])?;
                        store.push(&t, &[1.0; 8], 0.0)?;
                        store.clock()?;
                    }
                    assert!(store.settle(true)?);
                    Ok(store.pull(&[t])?[0].iter().sum())
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(20));
        c.left(3, false).unwrap();
        for t in threads {
            assert_eq!(t.join().unwrap().unwrap(), 8.0 * 9.0, "{rule}");
        }
    }
}

#[test]
fn a_server_comes_and_another_leaves_while_a_worker_works() {
    let c = coordinator(1, 2);
    servers(&c, 1, 2, Rule::BSP);
    let mut store = join(&c, 0, Rule::BSP);
    let t = Table::new(0, 1_000, 1, 400).unwrap();
    store.create(&t, &[0.0; 1_000]).unwrap();
    let watch = member(&c, "watch", 0);
    let map = || talweg_dist::Map::decode(&watch.get("map", soon()).unwrap().1.unwrap()).unwrap();
    let mut step = 0;
    let mut work_until = |done: &dyn Fn(&talweg_dist::Map) -> bool| {
        let deadline = soon();
        while !done(&map()) {
            assert!(Instant::now() < deadline, "{:?}", map());
            assert_eq!(store.pull(&[t]).unwrap()[0], vec![step as f32; 1_000]);
            store.push(&t, &[1.0; 1_000], 0.0).unwrap();
            store.clock().unwrap();
            step += 1;
        }
    };
    work_until(&|m| m.epoch >= 1);
    let member = member(&c, "server", 2);
    let listen = "127.0.0.1:0".parse().unwrap();
    let options = ServerOptions { secret: secret(), ..ServerOptions::new(2, 1, listen, Arc::new(Rule::BSP)) };
    thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |_| {}));
    work_until(&|m| (0..4).any(|p| m.primary(p) == Some(2)));
    watch.set(&talweg_dist::leave_key(0), b"", soon()).unwrap();
    work_until(&|m| !m.names(0));
    assert_eq!(store.pull(&[t]).unwrap()[0], vec![step as f32; 1_000]);
}

/// Adds, but hangs when it is told to.
struct Hangs(Arc<AtomicBool>);

impl Apply for Hangs {
    fn state(&mut self, table: u32, len: usize) -> std::result::Result<Vec<Vec<f32>>, String> {
        Add.state(table, len)
    }
    fn apply(&mut self, to: Target<'_>, update: &Update) -> std::result::Result<(), String> {
        while self.0.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Add.apply(to, update)
    }
}

#[test]
fn updates_of_one_table_in_one_step_all_count() {
    let c = coordinator(1, 2);
    servers(&c, 1, 2, Rule::BSP);
    let mut store = join(&c, 0, Rule::BSP);
    // Blocks that go together, blocks that go by themselves, and more than caches hold; updates that
    // are still held back when the next of the same block comes.
    for (id, width) in [(0, 5), (1, 5_000), (2, 1 << 16)] {
        let t = Table::new(id, 64, width, 4 * width).unwrap();
        let values = |k: usize| (0..64 * width).map(|i| ((i + k) % 97) as f32).collect::<Vec<f32>>();
        store.create(&t, &vec![0.0; 64 * width]).unwrap();
        for step in 0..2 {
            (0..3).for_each(|k| store.push(&t, &values(k), 0.0).unwrap());
            store.push_rows(&t, &[63, 0], &vec![1.0; 2 * width], 0.0).unwrap();
            store.clock().unwrap();
            let sums = [0, 1, 2].map(values);
            let sum = |i: usize| {
                let row = if i < width || i >= 63 * width { 1.0 } else { 0.0 };
                (step + 1) as f32 * (sums.iter().map(|v| v[i]).sum::<f32>() + row)
            };
            let got = store.pull(&[t]).unwrap();
            assert!(got[0].iter().enumerate().all(|(i, x)| *x == sum(i)), "table {id}");
        }
    }
}

#[test]
fn nobody_waits_for_a_server_that_hangs_once_another_has_taken_over() {
    let c = coordinator(1, 2);
    let hangs = Arc::new(AtomicBool::new(false));
    servers_that(&c, 1, 2, Rule::BSP, |server| {
        let hangs = if server == 0 { hangs.clone() } else { Arc::default() };
        Box::new(move || Ok(Box::new(Hangs(hangs.clone()))))
    });
    let mut store = join(&c, 0, Rule::BSP);
    // More than fits into any buffer between the two.
    let t = Table::new(0, 32, 1 << 18, 1 << 20).unwrap();
    let ones = vec![1.0; 32 << 18];
    store.create(&t, &vec![0.0; 32 << 18]).unwrap();
    hangs.store(true, Ordering::Relaxed);
    let taken_over = thread::spawn(move || {
        // What the coordinator does with a server that says nothing; it is in the middle of a step.
        thread::sleep(Duration::from_millis(300));
        member(&c, "watch", 0).delete("server/0", soon()).unwrap();
        c
    });
    let begun = Instant::now();
    for _ in 0..2 {
        store.push(&t, &ones, 0.0).unwrap();
        store.clock().unwrap();
    }
    assert!(store.pull(&[t]).unwrap()[0].iter().all(|x| *x == 2.0));
    assert!(begun.elapsed() < PATIENCE, "it was waited for until the deadline");
    hangs.store(false, Ordering::Relaxed);
    taken_over.join().unwrap();
}

/// Two workers move a table to their target with packed updates, of the whole table or of every
/// other row in turn; one is replaced half way.
fn filtered(filter: &'static str, by_rows: bool, is_replaced: bool) -> Vec<f32> {
    let c = Arc::new(coordinator(2, 2));
    servers(&c, 2, 2, Rule::BSP);
    let t = Table::new(0, 3_000, 1, 4_096).unwrap();
    let threads: Vec<_> = (0..2u32)
        .map(|w| {
            let c = c.clone();
            thread::spawn(move || {
                let mut store = join(&c, w, Rule::BSP);
                store.create(&t, &[0.0; 3_000]).unwrap();
                store.filter(&t, filter.parse().unwrap());
                for step in 0..120 {
                    if is_replaced && w == 1 && step == 60 {
                        store.wait().unwrap();
                        let kept = store.residuals();
                        drop(store);
                        store = join(&c, w, Rule::BSP);
                        assert_eq!(store.step(), 60);
                        store.filter(&t, filter.parse().unwrap());
                        assert!(store.restore_residuals(&kept[..5]).is_err());
                        store.restore_residuals(&kept).unwrap();
                    }
                    let now = store.pull(&[t]).unwrap().remove(0);
                    let change: Vec<f32> =
                        now.iter().enumerate().map(|(i, x)| 0.05 * ((i as f32 * 0.1).sin() - x)).collect();
                    if by_rows {
                        for half in 0..2 {
                            let rows: Vec<usize> = (half..3_000).step_by(2).collect();
                            let some: Vec<f32> = rows.iter().map(|r| change[*r]).collect();
                            store.push_rows(&t, &rows, &some, 0.0).unwrap();
                        }
                    } else {
                        store.push(&t, &change, 0.0).unwrap();
                    }
                    store.clock().unwrap();
                }
                store.pull(&[t]).unwrap().remove(0)
            })
        })
        .collect();
    let ends: Vec<Vec<f32>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(ends[0], ends[1]);
    ends.into_iter().next().unwrap()
}

#[test]
fn packed_updates_arrive_and_their_residuals_survive_a_replacement() {
    for (filter, near) in [("bf16", 0.01), ("int8", 0.01), ("1bit", 0.1), ("top:0.1", 0.1)] {
        for by_rows in [false, true] {
            let end = filtered(filter, by_rows, false);
            let off = end.iter().enumerate().map(|(i, x)| ((i as f32 * 0.1).sin() - x).abs()).sum::<f32>() / 3_000.0;
            assert!(off < near, "{filter}: {off} off in the mean");
            assert!(end == filtered(filter, by_rows, true), "{filter}: the same bits");
        }
    }
}

#[test]
fn wrong_shapes_are_refused_before_anything_is_sent() {
    let c = coordinator(1, 1);
    servers(&c, 1, 1, Rule::BSP);
    let mut store = join(&c, 0, Rule::BSP);
    let t = Table::new(0, 4, 2, 1 << 20).unwrap();
    assert!(store.create(&t, &[0.0; 7]).is_err());
    store.create(&t, &[0.0; 8]).unwrap();
    assert!(store.push(&t, &[0.0; 9], 0.0).is_err());
    assert!(store.push_rows(&t, &[4], &[0.0; 2], 0.0).is_err());
    assert!(store.pull_rows(&t, &[5]).is_err());
    assert!(Table::new(0, 0, 2, 8).is_err());
    assert_eq!(store.pull(&[t]).unwrap()[0], [0.0; 8]);
}

#[test]
fn a_table_is_dumped_and_restored_onto_another_number_of_servers() {
    let table = Table::new(0, 9, 2, 32).unwrap();
    let values: Vec<f32> = (0..18).map(|i| i as f32).collect();
    let changed: Vec<f32> = values.iter().map(|x| x + 1.0).collect();
    let saved = {
        let c = coordinator(1, 3);
        servers(&c, 1, 3, Rule::BSP);
        let mut store = join(&c, 0, Rule::BSP);
        store.create(&table, &values).unwrap();
        store.push(&table, &[1.0; 18], 0.0).unwrap();
        store.clock().unwrap();
        store.dump(&table).unwrap()
    };
    assert_eq!(saved, (vec![changed.clone()], 1));
    let c = coordinator(1, 1);
    servers(&c, 1, 1, Rule::BSP);
    let mut store = join(&c, 0, Rule::BSP);
    store.create(&table, &[0.0; 18]).unwrap();
    assert!(store.restore(&table, &[vec![0.0; 17]], 1).is_err());
    store.restore(&table, &saved.0, saved.1).unwrap();
    assert_eq!(store.dump(&table).unwrap(), saved);
    // A worker that comes later with the same checkpoint must not undo what was done since.
    store.push(&table, &[1.0; 18], 0.0).unwrap();
    store.clock().unwrap();
    store.restore(&table, &saved.0, saved.1).unwrap();
    assert_eq!(store.pull(&[table]).unwrap()[0], changed.iter().map(|x| x + 1.0).collect::<Vec<_>>());
}

#[test]
fn survivors_reduce_without_the_lost_worker() {
    let c = Arc::new(coordinator(3, 0));
    let threads: Vec<_> = (0..3u32)
        .map(|rank| {
            let c = c.clone();
            thread::spawn(move || {
                let at = "127.0.0.1:0".parse().unwrap();
                let mut r = Reducer::join(rank, &at, member(&c, "worker", rank), secret(), PATIENCE).unwrap();
                let mut first = [if rank == 0 { 7.0 } else { 0.0 }];
                r.broadcast(&mut first).unwrap();
                assert_eq!(first, [7.0]);
                let mut seen = Vec::new();
                for step in 0..20 {
                    if rank == 1 && step == 5 {
                        break;
                    }
                    let mut x = vec![rank as f32 + step as f32; 10];
                    r.mean(&mut x).unwrap();
                    seen.push(x[0]);
                }
                seen
            })
        })
        .collect();
    let seen: Vec<Vec<f32>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    // 0, 1 and 2 have the mean 1; 0 and 2 as well.
    let expected: Vec<f32> = (0..20).map(|s| s as f32 + 1.0).collect();
    assert_eq!(seen, [expected.clone(), expected[..5].to_vec(), expected]);
}

/// Packed means: what rounding leaves out of one bucket comes with its next mean, also when a worker
/// is lost, and every worker has the same bits.
#[test]
fn packed_means_are_right_over_many_steps() {
    const STEPS: usize = 200;
    let c = Arc::new(coordinator(3, 0));
    let run = |rank: u32, c: Arc<EmbeddedCoordinator>| {
        let at = "127.0.0.1:0".parse().unwrap();
        let mut r = Reducer::join(rank, &at, member(&c, "worker", rank), secret(), PATIENCE).unwrap();
        r.pack("int8".parse().unwrap());
        let value = |i: usize, rank: u32| (i as f32 + 0.37 * rank as f32).sin();
        let mut sums = [vec![0f64; 300], vec![0f64; 7]];
        for step in 0..STEPS {
            if rank == 1 && step == 3 {
                return sums;
            }
            for (bucket, sum) in sums.iter_mut().enumerate() {
                let mut x: Vec<f32> = (0..sum.len()).map(|i| value(i + 1000 * bucket, rank)).collect();
                r.mean_of(bucket, 1.0, &mut x).unwrap();
                if step >= 10 {
                    sum.iter_mut().zip(&x).for_each(|(s, x)| *s += f64::from(*x));
                }
            }
        }
        for (bucket, sum) in sums.iter().enumerate() {
            for (i, s) in sum.iter().enumerate() {
                let (i, mean) = (i + 1000 * bucket, s / (STEPS - 10) as f64);
                let expected = f64::from(value(i, 0) + value(i, 2)) / 2.0;
                assert!((mean - expected).abs() < 1e-3, "bucket {bucket}: {mean}, not {expected}");
            }
        }
        sums
    };
    let threads: Vec<_> = (0..3)
        .map(|rank| {
            let c = c.clone();
            thread::spawn(move || run(rank, c))
        })
        .collect();
    let seen: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(seen[0], seen[2]);
}
