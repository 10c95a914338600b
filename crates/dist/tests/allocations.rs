//! The steady state allocates nothing: sums over ranks, means over workers, and steps in the store,
//! at both ends, through memory and over sockets, whole and by rows, packed or not. A test file of
//! its own with one test, as it counts what the whole process allocates.

use net::{Connection, Listener};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Element, Mesh};
use talweg_dist::{
    Add, Controller, Disk, EmbeddedCoordinator, Filter, Hello, Member, Reducer, Rule, Secret, ServerOptions, Store,
    StoreServer, TLS_NAME, Table,
};
use testkit::allocations::{Counting, least};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Rounds before it counts, tries, and rounds of a try. Of the tries the least counts: how many
/// messages are under way at once depends on how threads run, and a new most takes new memory.
const WARM: usize = 60;
const TRIES: usize = 30;
const ROUNDS: usize = 4;
const ALL: usize = WARM + TRIES * ROUNDS;

/// How updates travel, and how sums do; as they are first.
const WIRES: [Option<&str>; 5] = [None, Some("bf16"), Some("int8"), Some("1bit"), Some("top:0.01")];

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
    WIRES.into_iter().for_each(means_over_workers);
    for rule in ["bsp", "ssp:2", "async"] {
        let rule = rule.parse().unwrap();
        steps_in_the_store("", rule, 1, 20_000, None, whole);
        steps_in_the_store("", rule, 2, 1, None, whole);
        steps_in_the_store("by rows", rule, 2, 8, None, rows);
    }
    for wire in WIRES.into_iter().flatten() {
        let what = format!("as {wire}");
        steps_in_the_store(&what, Rule::BSP, 1, 3_000, None, move |store, t, round| packed(store, t, wire, round));
    }
    let folder = tempfile::tempdir().unwrap();
    steps_in_the_store("with a log on disk", Rule::BSP, 2, 64, Some(folder.path()), whole);
    heartbeats();
    // More than any list on a stack has room for.
    steps_in_the_store("", Rule::BSP, 9, 4, None, whole);
    steps_in_the_store("", "ssp:1".parse().unwrap(), 17, 4, None, whole);
    encrypted();
}

fn sums_over_ranks() {
    for len in [1, 1_000, 300_000] {
        let mut ranks = Mesh::in_process(2).unwrap().into_iter();
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

/// A long sum under TLS, where the library takes memory for each record that it encrypts and for each
/// that it decrypts, and no other thread takes any beside it.
fn encrypted() {
    const BYTES: usize = 1 << 20;
    const RECORD: usize = 16 << 10;
    if std::env::var_os("TALWEG_LINK").is_none() {
        // Within a machine bytes that may go through memory are not encrypted.
        return;
    }
    let (folder, secret) = certificates();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Some(secret.clone())).unwrap();
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::default(), Some(&secret), soon()).unwrap());
    let a = listener.accept().unwrap().handshake(soon()).unwrap();
    let b = call.join().unwrap();
    assert!(a.is_encrypted() && b.is_encrypted());
    drop(folder);
    let mut a = Mesh::new(0, 1, vec![None, Some(a)]).unwrap();
    // Both begin together, and neither continues before both are done.
    let together = Arc::new(Barrier::new(2));
    let with = together.clone();
    let other = thread::spawn(move || {
        let mut b = Mesh::new(1, 1, vec![Some(b), None]).unwrap();
        let mut x = vec![1u8; BYTES];
        for _ in 0..ALL {
            with.wait();
            b.all_reduce(&mut x, Element::F32, Combine::Max, soon()).unwrap();
            with.wait();
        }
    });
    let mut x = vec![0u8; BYTES];
    let mut f = || {
        together.wait();
        a.all_reduce(&mut x, Element::F32, Combine::Max, soon()).unwrap();
        together.wait();
    };
    (0..WARM).for_each(|_| f());
    let cost = least(TRIES, ROUNDS, f);
    other.join().unwrap();
    println!("a sum of {BYTES} bytes under TLS: {cost:?} in {ROUNDS} rounds");
    // Each rank gives half of the bytes away, and the half that it has summed up; a frame's header
    // shares a record with the first of its bytes, so that there is one more.
    let records = ROUNDS * 2 * 2 * (BYTES / 2 / RECORD + 1);
    assert!(cost.calls <= 2 * records, "{cost:?}, but {records} records");
    assert!(cost.bytes <= 2 * records * (RECORD + 64), "{cost:?}, but {records} records");
}
/// A certificate of this test's own authority, in a folder.
fn certificates() -> (tempfile::TempDir, Secret) {
    let folder = tempfile::tempdir().unwrap();
    let mut p = CertificateParams::new(Vec::new()).unwrap();
    p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(p, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec![TLS_NAME.to_string()]).unwrap().signed_by(&key, &authority).unwrap();
    for (name, text) in [("ca.crt", authority.pem()), ("tls.crt", cert.pem()), ("tls.key", key.serialize_pem())] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let secret = Secret::certificates(folder.path()).unwrap();
    (folder, secret)
}

/// Messages of idle processes: that they are alive, and how servers are.
fn heartbeats() {
    let c = Arc::new(coordinator(1, 2));
    serve(&c, Rule::BSP, 1, None);
    let _store = join(&c, 0);
    thread::sleep(Duration::from_secs(1));
    let cost = least(4, 1, || thread::sleep(Duration::from_millis(500)));
    println!("heartbeats: {cost:?} in half a second");
    assert_eq!(cost.calls, 0, "heartbeats: {cost:?} in half a second");
}

fn secret() -> Option<Secret> {
    Some(Secret::new("a secret of these tests").unwrap())
}
fn coordinator(workers: usize, servers: usize) -> EmbeddedCoordinator {
    let at = "127.0.0.1:0".parse().unwrap();
    EmbeddedCoordinator::start(&at, secret(), Controller::new(workers, servers, 2), |_| {}).unwrap()
}
fn member(c: &EmbeddedCoordinator, role: &str, id: u32) -> Member {
    Member::connect(c.address(), &Hello::new(role, id), secret(), soon()).unwrap()
}

fn means_over_workers(wire: Option<&str>) {
    // As they are, more than a piece, and more than any socket's buffer.
    let len = if wire.is_none() { 700_000 } else { 50_001 };
    let filter = wire.map(|w| w.parse::<Filter>().unwrap());
    let c = Arc::new(coordinator(2, 0));
    let join = move |c: &EmbeddedCoordinator, rank| {
        let at = "127.0.0.1:0".parse().unwrap();
        let r = Reducer::join(rank, &at, member(c, "worker", rank), secret(), Duration::from_secs(60));
        let mut r = r.unwrap();
        filter.into_iter().for_each(|f| r.pack(f));
        r
    };
    let there = c.clone();
    let other = thread::spawn(move || {
        let mut r = join(&there, 1);
        let mut x = vec![1.0; len];
        (0..ALL).for_each(|_| r.mean(&mut x).unwrap());
    });
    let mut r = join(&c, 0);
    let mut x = vec![2.0; len];
    check(&format!("a mean over workers, {}", wire.unwrap_or("f32")), || r.mean(&mut x).unwrap());
    other.join().unwrap();
    assert!(wire.is_some() || x.iter().all(|x| *x == 1.5));
}

/// Runs a step again and again.
type Round<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// A worker's steps of whole tables: pushes, replication, acknowledgements and reads.
fn whole(store: &mut Store, t: &Table, round: Round) {
    let n = t.rows * t.width;
    let (ones, mut out) = (vec![1.0; n], vec![0.0; n]);
    store.create(t, &out).unwrap();
    round(&mut || {
        store.push(t, &ones, 0.0).unwrap();
        store.clock().unwrap();
        store.pull_into(&[*t], &mut [&mut out]).unwrap();
        store.push_pull(&[*t], &[&ones], 0.0, &mut [&mut out]).unwrap();
    });
}
/// The same, packed on the wire, whole and by rows.
fn packed(store: &mut Store, t: &Table, wire: &str, round: Round) {
    let n = t.rows * t.width;
    let (ones, mut out, list) = (vec![1.0; n], vec![0.0; n], [7, 2, 3]);
    store.create(t, &out).unwrap();
    store.filter(t, wire.parse().unwrap());
    round(&mut || {
        store.push(t, &ones, 0.0).unwrap();
        store.push_rows(t, &list, &ones[..3 * t.width], 0.0).unwrap();
        store.clock().unwrap();
        store.pull_into(&[*t], &mut [&mut out]).unwrap();
    });
}
/// Reads and updates of rows: of few, of those that were read before, whose list both ends
/// remember, and of others each time.
fn rows(store: &mut Store, t: &Table, round: Round) {
    let table = Table::new(1, 4_000, t.width, 4 * 500 * t.width).unwrap();
    store.create(&table, &vec![0.0; 4_000 * t.width]).unwrap();
    let same: Vec<usize> = (0..200).map(|i| i * 17).collect();
    let (few, mut others) = ([3, 1_999, 5], vec![0; 100]);
    let mut values = vec![1.0; 200 * t.width];
    let mut step = 0;
    round(&mut || {
        step += 1;
        others.iter_mut().enumerate().for_each(|(i, r)| *r = (i * 31 + step * 7) % 4_000);
        for list in [&few[..], &same, &others] {
            let values = &mut values[..list.len() * t.width];
            store.pull_rows_into(&table, list, values).unwrap();
            store.push_rows(&table, list, values, 0.0).unwrap();
        }
        store.clock().unwrap();
    });
}

fn serve(c: &EmbeddedCoordinator, rule: Rule, workers: usize, folder: Option<&Path>) {
    for server in 0..2 {
        let (listen, rule) = ("127.0.0.1:0".parse().unwrap(), Arc::new(rule));
        let disk = folder.map(|f| Disk::new(f.join(server.to_string())));
        let options = ServerOptions { secret: secret(), disk, ..ServerOptions::new(server, workers, listen, rule) };
        let member = member(c, "server", server);
        thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |_| {}));
    }
}
fn join(c: &EmbeddedCoordinator, rank: u32) -> Store {
    Store::join(rank, false, member(c, "worker", rank), secret(), Duration::from_secs(60)).unwrap()
}

/// Steps of so many workers in a store of two servers with two copies, in eight blocks.
fn steps_in_the_store(
    what: &str,
    rule: Rule,
    workers: u32,
    width: usize,
    folder: Option<&Path>,
    steps: impl Fn(&mut Store, &Table, Round) + Clone + Send + 'static,
) {
    let c = Arc::new(coordinator(workers as usize, 2));
    serve(&c, rule, workers as usize, folder);
    let t = Table::new(0, 8, width, 4 * width).unwrap();
    let others: Vec<_> = (1..workers)
        .map(|rank| {
            let (c, steps) = (c.clone(), steps.clone());
            thread::spawn(move || steps(&mut join(&c, rank), &t, &mut |f| (0..ALL).for_each(|_| f())))
        })
        .collect();
    let what = format!("{rule}: a step of {workers} workers, 8 blocks of {width} {what}");
    steps(&mut join(&c, 0), &t, &mut |f| check(&what, f));
    others.into_iter().for_each(|o| o.join().unwrap());
}
