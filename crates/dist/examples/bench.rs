//! Speed of the store and of all-reduce over loopback, beside plain sockets, iperf3 (where it is
//! installed) and memcpy in the same run.
//!
//! `cargo run --release -p talweg-dist --example bench` prints medians; everything runs as
//! threads of one process. Names of parts (`reference`, `store`, `null`, `links`, `reduce`) run those
//! alone.

use net::{Address, Connection, Header, Hello, Listener, Secret};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Element, Mesh};
use talweg_dist::{
    Add, Controller, EmbeddedCoordinator, Member, Result, Rule, ServerOptions, Store, StoreServer, Table,
};

const LARGE: usize = 64 << 20;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
/// Median seconds of a call.
fn median(times: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = Vec::with_capacity(times);
    for i in 0..times + times / 4 + 1 {
        let start = Instant::now();
        f()?;
        // The first calls warm up.
        if i > times / 4 {
            all.push(start.elapsed().as_secs_f64());
        }
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
fn speed(what: &str, seconds: f64) {
    println!("{what:44} {:8.2} GB/s", LARGE as f64 / seconds / 1e9);
}
fn latency(what: &str, seconds: f64) {
    println!("{what:44} {:8.1} µs", seconds * 1e6);
}

/// What the machine gives: copying, a plain socket one way, four bytes there and back.
fn reference() -> std::io::Result<()> {
    let (from, mut to) = (vec![1u8; LARGE], vec![0u8; LARGE]);
    let seconds = median(8, || {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        Ok(())
    });
    speed("memcpy, 64 MiB", seconds.unwrap_or(f64::NAN));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut a = TcpStream::connect(listener.local_addr()?)?;
    let (mut b, _) = listener.accept()?;
    a.set_nodelay(true)?;
    b.set_nodelay(true)?;
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        // First 64 MiB at a time, answered by a byte; then four bytes, answered by as many.
        for answer in [1, 4] {
            let whole = if answer == 1 { LARGE } else { 4 };
            for _ in 0..if answer == 1 { 11 } else { 2501 } {
                let mut left = whole;
                while left > 0 {
                    match b.read(&mut buffer) {
                        Ok(n) if n > 0 => left -= n,
                        _ => return,
                    }
                }
                if b.write_all(&[1; 4][..answer]).is_err() {
                    return;
                }
            }
        }
    });
    let piece = vec![0u8; 1 << 20];
    let seconds = median(8, || {
        (0..LARGE >> 20).for_each(|_| a.write_all(&piece).unwrap_or(()));
        a.read_exact(&mut [0]).unwrap_or(());
        Ok(())
    });
    speed("plain TCP socket, 64 MiB one way", seconds.unwrap_or(f64::NAN));
    let seconds = median(2000, || {
        a.write_all(&[0; 4]).unwrap_or(());
        a.read_exact(&mut [0; 4]).unwrap_or(());
        Ok(())
    });
    latency("plain TCP socket, 4 bytes there and back", seconds.unwrap_or(f64::NAN));
    let _ = echo.join();
    iperf3();
    Ok(())
}

/// iperf3's own figure over loopback, if it is there.
fn iperf3() {
    let port = "25201";
    let server = Command::new("iperf3").args(["-s", "-1", "-p", port]).stdout(Stdio::null()).spawn();
    let Ok(mut server) = server else {
        return println!("{:44} not installed", "iperf3");
    };
    thread::sleep(Duration::from_millis(200));
    let out = Command::new("iperf3").args(["-c", "127.0.0.1", "-p", port, "-t", "2", "-f", "g"]).output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find(|l| l.contains("receiver")).unwrap_or_default();
    let bits = line.split_whitespace().zip(line.split_whitespace().skip(1)).find(|(_, unit)| *unit == "Gbits/sec");
    match bits.and_then(|(n, _)| n.parse::<f64>().ok()) {
        Some(n) => println!("{:44} {:8.2} GB/s", "iperf3 over loopback", n / 8.0),
        None => println!("{:44} gave no figure", "iperf3"),
    }
    let _ = server.kill();
    let _ = server.wait();
}

/// A store of so many servers in threads, and a worker.
fn open(servers: u32) -> Result<(EmbeddedCoordinator, Store)> {
    let coordinator =
        EmbeddedCoordinator::start(&"127.0.0.1:0".parse()?, None, Controller::new(1, servers as usize, 1), |_| {})?;
    let connect = |role: &str, id| Member::connect(coordinator.address(), &Hello::new(role, id), None, soon());
    for server in 0..servers {
        let member = connect("server", server)?;
        let listen = "127.0.0.1:0".parse()?;
        let options = ServerOptions::new(server, 1, listen, Arc::new(Rule::ASYNC));
        thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |e| eprintln!("{e}")));
    }
    let store = Store::join(0, false, connect("worker", 0)?, None, Duration::from_secs(60))?;
    Ok((coordinator, store))
}

fn store() -> Result<()> {
    let (_coordinator, mut store) = open(1)?;
    let (small, large) = (Table::new(0, 1, 1, 4)?, Table::new(1, LARGE / 4, 1, 1 << 20)?);
    store.create(&small, &[0.0])?;
    store.create(&large, &vec![0.0; LARGE / 4])?;
    latency(
        "store: push 4 bytes, acknowledged",
        median(2000, || {
            store.push(&small, &[1.0], 0.0)?;
            store.clock()?;
            store.wait()
        })?,
    );
    latency("store: pull 4 bytes", median(2000, || store.pull(&[small]).map(drop))?);
    let mut values = vec![1.0; LARGE / 4];
    speed(
        "store: push 64 MiB and add, acknowledged",
        median(8, || {
            store.push(&large, &values, 0.0)?;
            store.clock()?;
            store.wait()
        })?,
    );
    speed("store: pull 64 MiB", median(8, || store.pull_into(&[large], &mut [&mut values]))?);
    Ok(())
}

/// A step that computes nothing: read the parameters, send an update of the same size.
fn null_step() -> Result<()> {
    let milliseconds = |what: &str, seconds: f64| println!("{what:44} {:8.2} ms", seconds * 1e3);
    let (_coordinator, mut store) = open(16)?;
    let scalars: Vec<Table> = (0..16).map(|id| Table::new(id, 1, 1, 4)).collect::<Result<_>>()?;
    for t in &scalars {
        store.create(t, &[0.0])?;
    }
    let seconds = median(500, || {
        let mut values = [0.0; 16];
        let mut into: Vec<&mut [f32]> = values.chunks_mut(1).collect();
        store.pull_into(&scalars, &mut into)?;
        for t in &scalars {
            store.push(t, &[1.0], 0.0)?;
        }
        store.clock()?;
        store.wait()
    })?;
    milliseconds("null step, 16 shards, scalars", seconds);
    let dense = Table::new(20, 25_000_000, 1, 1 << 20)?;
    let mut values = vec![0.0; 25_000_000];
    store.create(&dense, &values)?;
    let seconds = median(8, || {
        store.pull_into(&[dense], &mut [&mut values])?;
        store.push(&dense, &values, 0.0)?;
        store.clock()?;
        store.wait()
    })?;
    milliseconds("null step, 16 shards, 100 MB dense", seconds);
    for (id, rows, name) in [(21, 1 << 18, "1/4 GB"), (22, 1 << 20, "1 GB")] {
        let table = Table::new(id, rows, 256, 1 << 20)?;
        store.create(&table, &vec![0.0; rows * 256])?;
        let (mut at, mut values) = (0, vec![0.0; 32 * 256]);
        let seconds = median(200, || {
            at += 1;
            let some: [usize; 32] = std::array::from_fn(|i| (i * 7919 + at * 104_729) * 31 % rows);
            store.pull_rows_into(&table, &some, &mut values)?;
            store.push_rows(&table, &some, &values, 0.0)?;
            store.clock()?;
            store.wait()
        })?;
        milliseconds(&format!("null step, 16 shards, 32 rows of {name}"), seconds);
    }
    Ok(())
}

/// Two connected ends over an address.
fn pair(at: &Address, secret: Option<Secret>) -> Result<(Connection, Connection)> {
    let listener = Listener::bind(at, secret.clone())?;
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::default(), secret.as_ref(), soon()));
    let answered = listener.accept()?.handshake(soon())?;
    let called = call.join().map_err(|_| talweg_dist::Error::value("a thread panicked"))??;
    Ok((called, answered))
}
/// What a link gives with and without tags on its frames: 64 MiB one way in frames of a MiB, four bytes
/// there and back.
fn link(what: &str, (mut a, b): (Connection, Connection)) -> Result<()> {
    let (mut send, mut receive) = b.split();
    let echo = thread::spawn(move || {
        let mut into = Vec::new();
        // Until the other end goes away.
        while let Ok(h) = receive.header(soon()) {
            if receive.payload_to(&mut into, LARGE, soon()).is_err() {
                break;
            }
            if h.kind == 2 && send.send(&h, &[&into[..4]], soon()).is_err() {
                break;
            }
        }
    });
    let (piece, mut four) = (vec![1u8; 1 << 20], [0u8; 4]);
    let seconds = median(8, || {
        (0..LARGE >> 20).try_for_each(|i| a.send(&Header::new(1 + u8::from(i == 63)), &[&piece], soon()))?;
        a.receiver().header(soon())?;
        Ok(a.receiver().payload_into(&mut four, soon())?)
    })?;
    speed(&format!("{what}, 64 MiB one way"), seconds);
    let seconds = median(2000, || {
        a.send(&Header::new(2), &[&[0; 4]], soon())?;
        a.receiver().header(soon())?;
        Ok(a.receiver().payload_into(&mut four, soon())?)
    })?;
    latency(&format!("{what}, 4 bytes there and back"), seconds);
    a.halves().0.close();
    echo.join().map_err(|_| talweg_dist::Error::value("a thread panicked"))
}
/// Keeps this thread on one core, as launchers of ranks do; two that wait for each other are
/// otherwise easily put on the same one.
fn pin(core: usize) {
    let mut only = rustix::thread::CpuSet::new();
    only.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &only);
}
fn all_reduce(what: &str, a: Connection, b: Connection) -> Result<()> {
    let mut first = Mesh::new(0, 1, vec![None, Some(a)])?;
    let mut second = Mesh::new(1, 1, vec![Some(b), None])?;
    // The other rank does the same until the first goes away.
    let other = thread::spawn(move || {
        pin(1);
        let (mut small, mut large) = (vec![0u8; 4], vec![0u8; LARGE]);
        for _ in 0..2501 {
            second.all_reduce(&mut small, Element::F32, Combine::Sum, soon())?;
        }
        for _ in 0..11 {
            second.all_reduce(&mut large, Element::F32, Combine::Sum, soon())?;
        }
        Result::Ok(())
    });
    pin(0);
    let (mut small, mut large) = (vec![0u8; 4], vec![0u8; LARGE]);
    let t = median(2000, || first.all_reduce(&mut small, Element::F32, Combine::Sum, soon()))?;
    latency(&format!("all-reduce over {what}, 2 ranks, 4 bytes"), t);
    let t = median(8, || first.all_reduce(&mut large, Element::F32, Combine::Sum, soon()))?;
    speed(&format!("all-reduce over {what}, 2 ranks, 64 MiB"), t);
    other.join().map_err(|_| talweg_dist::Error::value("a thread panicked"))?
}

fn main() -> Result<()> {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| only.is_empty() || only.iter().any(|o| o == part);
    if wants("reference") {
        reference().map_err(talweg_dist::Error::io("the reference"))?;
    }
    if wants("store") {
        store()?;
    }
    if wants("null") {
        null_step()?;
    }
    if wants("links") {
        // With `TALWEG_LINK=socket`: otherwise both go through memory, without tags.
        let at = "127.0.0.1:0".parse()?;
        link("a link", pair(&at, None)?)?;
        link("an authenticated link", pair(&at, Some(Secret::new(&Secret::generate()?)?))?)?;
    }
    if wants("reduce") {
        let (a, b) = pair(&"127.0.0.1:0".parse()?, None)?;
        all_reduce("TCP", a, b)?;
        let (a, b) = Connection::pair()?;
        all_reduce("shared memory", a, b)?;
    }
    Ok(())
}
