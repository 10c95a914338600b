//! A man in the middle of a link with a secret: it can read, but whatever it changes,
//! inserts, repeats, reorders or leaves out ends the connection with an error that says so. In a
//! process of its own, where memory is not shared.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, HEADER_BYTES, Header, Hello, Listener, PAYLOAD_MAX, Pump, Secret};

const TAG: usize = 16;
const INNER: &str = "TALWEG_TEST_SEALED";

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}
fn secret() -> Option<Secret> {
    Some(Secret::new("correct horse battery staple").unwrap())
}
/// Bytes of a frame on such a link.
fn frame(payload: usize) -> usize {
    HEADER_BYTES + TAG + if payload > 0 { payload + TAG } else { 0 }
}

/// What the man in the middle does with the caller's bytes after the handshake.
type Meddle = fn(&mut Vec<u8>);

/// A caller and a listener with a man in the middle, who lets the handshake pass and then waits for so
/// many bytes of the caller's before it meddles and hands them on.
fn between(bytes: usize, meddle: Meddle) -> (Connection, Connection) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), secret()).unwrap();
    let Address::Tcp(real) = *listener.address() else { panic!("it listens on TCP") };
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxied = Address::Tcp(proxy.local_addr().unwrap());
    thread::spawn(move || {
        let (mut caller, _) = proxy.accept().unwrap();
        let mut server = TcpStream::connect(real).unwrap();
        let (mut back, mut front) = (server.try_clone().unwrap(), caller.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back, &mut front));
        // Greeting and proof, each with its header: a nonce, a number and a role; a proof.
        let mut hello = vec![0; HEADER_BYTES + 32 + 4 + 6];
        caller.read_exact(&mut hello).unwrap();
        server.write_all(&hello).unwrap();
        let mut proof = vec![0; HEADER_BYTES + 32];
        caller.read_exact(&mut proof).unwrap();
        server.write_all(&proof).unwrap();
        let mut said = vec![0; bytes];
        caller.read_exact(&mut said).unwrap();
        meddle(&mut said);
        server.write_all(&said).unwrap();
        let _ = std::io::copy(&mut caller, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Write);
    });
    let call = thread::spawn(move || {
        Connection::connect(&proxied, &Hello::new("worker", 1), secret().as_ref(), soon()).unwrap()
    });
    let answered = listener.accept().unwrap().handshake(soon()).unwrap();
    (call.join().unwrap(), answered)
}
/// The next message as it was meant, or the error.
fn hear(c: &mut Connection) -> Result<(u8, Vec<u8>), String> {
    let h = c.receiver().header(soon()).map_err(|e| e.to_string())?;
    let payload = c.receiver().payload(PAYLOAD_MAX, soon()).map_err(|e| e.to_string())?;
    Ok((h.kind, payload))
}
/// Three messages that a man in the middle tampers with; what arrived before the error, and the error.
fn three(meddle: Meddle) -> (Vec<(u8, Vec<u8>)>, String) {
    let (mut a, mut b) = between(frame(5) + frame(0) + frame(5), meddle);
    assert!(a.is_sealed() && b.is_sealed() && !a.is_shared());
    for (kind, payload) in [(1, &b"first"[..]), (2, b""), (3, b"third")] {
        a.send(&Header::new(kind), &[payload], soon()).unwrap();
    }
    drop(a);
    let mut heard = Vec::new();
    loop {
        match hear(&mut b) {
            Ok(m) => heard.push(m),
            Err(e) => return (heard, e),
        }
    }
}

#[test]
fn in_a_process_without_shared_memory() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let first = (1, b"first".to_vec());
    let all = vec![first.clone(), (2, Vec::new()), (3, b"third".to_vec())];
    let (heard, end) = three(|_| {});
    assert_eq!(heard, all);
    assert!(end.contains("it closed the connection"), "{end}");
    let cases: [(&str, Meddle, usize); 9] = [
        ("a bit of the first payload", |b| b[HEADER_BYTES + TAG] ^= 1, 0),
        ("a bit of the first header", |b| b[8] ^= 1, 0),
        ("a bit of a tag", |b| b[HEADER_BYTES + 3] ^= 1, 0),
        ("a bit of the last tag", |b| *b.last_mut().unwrap() ^= 0x80, 2),
        (
            "a header with a checksum that is right",
            |b| {
                b[5] = 9;
                let sum = crc32c::crc32c(&b[..60]);
                b[60..64].copy_from_slice(&sum.to_le_bytes());
            },
            0,
        ),
        (
            "a frame repeated",
            |b| {
                let one = b[..frame(5)].to_vec();
                b.splice(frame(5)..frame(5), one);
            },
            1,
        ),
        ("a frame left out", |b| drop(b.drain(..frame(5))), 0),
        (
            "frames in another order",
            |b| {
                let one: Vec<u8> = b.drain(frame(5)..frame(5) + frame(0)).collect();
                b.splice(0..0, one);
            },
            0,
        ),
        (
            "a frame inserted",
            |b| {
                let mut own = Header::new(4).encode().to_vec();
                own.extend([0; TAG]);
                b.splice(frame(5)..frame(5), own);
            },
            1,
        ),
    ];
    for (what, meddle, good) in cases {
        let (heard, end) = three(meddle);
        assert!(end.contains("not authentic"), "{what}: {end}");
        assert_eq!(heard, all[..good], "{what}");
    }
    // Cut short, a frame is not taken for whole.
    let (heard, end) = three(|b| b.truncate(b.len() - 1));
    assert!(heard == all[..2] && end.contains("it closed the connection"), "{end}");
    skipped_and_pumped();
}

/// Payloads that are not taken, and frames that go out while others come in.
fn skipped_and_pumped() {
    let (mut a, mut b) = between(0, |_| {});
    a.send(&Header::new(1), &[&[7; 10_000]], soon()).unwrap();
    a.send(&Header::new(2), &[b"x", b"", b"yz"], soon()).unwrap();
    assert_eq!(b.receiver().header(soon()).unwrap().kind, 1);
    assert_eq!(hear(&mut b).unwrap(), (2, b"xyz".to_vec()), "the first payload was skipped");
    let data: Vec<u8> = (0..3_000_000).map(|i| (i * 7 % 251) as u8).collect();
    let (theirs, expected) = (data.clone(), data.clone());
    let other = thread::spawn(move || swap(&mut b, &theirs, &expected));
    swap(&mut a, &data, &data);
    other.join().unwrap();
}
fn swap(c: &mut Connection, data: &[u8], expected: &[u8]) {
    const PIECE: usize = 700_000;
    let mut pump = Pump::new(c.halves().0.try_clone().unwrap(), &Header::new(5), data, PIECE).unwrap();
    let mut got = vec![0; data.len()];
    for part in got.chunks_mut(PIECE) {
        let receiver = c.receiver();
        assert_eq!(receiver.header_while(Some(&mut pump), soon()).unwrap().kind, 5);
        receiver.payload_into_while(part, Some(&mut pump), soon()).unwrap();
    }
    pump.finish(soon()).unwrap();
    assert!(got == expected);
}

#[test]
fn whoever_meddles_with_frames_ends_the_connection() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process_without_shared_memory", "--nocapture"])
        .env(INNER, "1")
        .env("TALWEG_LINK", "socket")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn frames_through_memory_and_without_a_secret_are_as_they_were() {
    let meet = |secret: Option<Secret>| {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), secret.clone()).unwrap();
        let at = listener.address().clone();
        let call = thread::spawn(move || Connection::connect(&at, &Hello::default(), secret.as_ref(), soon()).unwrap());
        let answered = listener.accept().unwrap().handshake(soon()).unwrap();
        (call.join().unwrap(), answered)
    };
    let (a, b) = meet(secret());
    assert!(a.is_shared() && !a.is_sealed() && !b.is_sealed());
    let (a, b) = meet(None);
    assert!(!a.is_sealed() && !b.is_sealed());
}
