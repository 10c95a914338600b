//! Speed of the store and of all-reduce over loopback, beside a plain socket in the same run.
//!
//! `cargo run --release -p talweg-dist --example bench` prints medians; everything runs as
//! threads of one process.

use net::{Address, Connection, Hello, Listener};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Combine, Element, Group};
use talweg_dist::{Add, Coordinator, Host, HostOptions, Registrar, Result, Roster, Rule, Store, Table};

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

/// One direction over a plain socket, and a byte there and back.
fn reference() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut a = TcpStream::connect(listener.local_addr()?)?;
    let (mut b, _) = listener.accept()?;
    a.set_nodelay(true)?;
    b.set_nodelay(true)?;
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        loop {
            let mut left = LARGE;
            while left > 0 {
                match b.read(&mut buffer) {
                    Ok(n) if n > 0 => left -= n,
                    _ => return,
                }
            }
            if b.write_all(&[1]).is_err() {
                return;
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
    drop(a);
    let _ = echo.join();
    Ok(())
}

fn store() -> Result<()> {
    let coordinator = Coordinator::start(&"127.0.0.1:0".parse()?, None, Roster::new(1, 1, 1), |_| {})?;
    let connect = |role: &str| Registrar::connect(coordinator.address(), &Hello::new(role, 0), None, soon());
    let registrar = connect("server")?;
    let listen = "127.0.0.1:0".parse()?;
    let options = HostOptions { server: 0, workers: 1, listen, secret: None, rule: Arc::new(Rule::ASYNC) };
    thread::spawn(move || Host::run(options, registrar, || Ok(Box::new(Add)), |e| eprintln!("{e}")));
    let mut store = Store::join(0, false, connect("worker")?, None, Duration::from_secs(60))?;
    let (small, large) = (Table::new(0, 1, 1, 4)?, Table::new(1, LARGE / 4, 1, 4 << 20)?);
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
    let values = vec![1.0; LARGE / 4];
    speed(
        "store: push 64 MiB and add",
        median(8, || {
            store.push(&large, &values, 0.0)?;
            store.clock()?;
            store.wait()
        })?,
    );
    speed("store: pull 64 MiB", median(8, || store.pull(&[large]).map(drop))?);
    Ok(())
}

/// Two connected ends over an address.
fn pair(at: &Address) -> Result<(Connection, Connection)> {
    let listener = Listener::bind(at, None)?;
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::default(), None, soon()));
    let answered = listener.accept()?.handshake(soon())?;
    let called = call.join().map_err(|_| talweg_dist::Error::value("a thread panicked"))??;
    Ok((called, answered))
}
fn all_reduce(what: &str, a: Connection, b: Connection) -> Result<()> {
    let mut first = Group::new(0, 1, vec![None, Some(a)])?;
    let mut second = Group::new(1, 1, vec![Some(b), None])?;
    // The other rank does the same until the first goes away.
    let other = thread::spawn(move || {
        let (mut small, mut large) = (vec![0u8; 4], vec![0u8; LARGE]);
        for _ in 0..2501 {
            second.all_reduce(&mut small, Element::F32, Combine::Sum, soon())?;
        }
        for _ in 0..11 {
            second.all_reduce(&mut large, Element::F32, Combine::Sum, soon())?;
        }
        Result::Ok(())
    });
    let (mut small, mut large) = (vec![0u8; 4], vec![0u8; LARGE]);
    let t = median(2000, || first.all_reduce(&mut small, Element::F32, Combine::Sum, soon()))?;
    latency(&format!("all-reduce over {what}, 2 ranks, 4 bytes"), t);
    let t = median(8, || first.all_reduce(&mut large, Element::F32, Combine::Sum, soon()))?;
    speed(&format!("all-reduce over {what}, 2 ranks, 64 MiB"), t);
    other.join().map_err(|_| talweg_dist::Error::value("a thread panicked"))?
}

fn main() -> Result<()> {
    reference().map_err(talweg_dist::Error::io("the reference"))?;
    store()?;
    let (a, b) = pair(&"127.0.0.1:0".parse()?)?;
    all_reduce("TCP", a, b)?;
    let (a, b) = Connection::pair()?;
    all_reduce("a Unix socket", a, b)
}
