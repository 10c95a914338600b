//! Every link carries frames whole and in order; whatever else arrives is refused, and nothing
//! waits past its deadline.

use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, Error, Header, Hello, Listener, PAYLOAD_MAX, Secret};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}
fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text).unwrap())
}
const GOOD: &str = "correct horse battery staple";

/// Both ends of a fresh connection over `at`.
fn connect(at: &Address) -> (Connection, Connection) {
    let listener = Listener::bind(at, secret(GOOD)).unwrap();
    let address = listener.address().clone();
    let call = thread::spawn(move || {
        Connection::connect(&address, &Hello::new("worker", 3), secret(GOOD).as_ref(), soon()).unwrap()
    });
    let answered = listener.accept().unwrap().handshake(soon()).unwrap();
    assert_eq!(answered.peer(), &Hello::new("worker", 3));
    (call.join().unwrap(), answered)
}

fn echo(mut a: Connection, b: Connection) {
    let (mut send, mut receive) = b.split();
    let back = thread::spawn(move || {
        for _ in 0..4 {
            let h = receive.header(soon()).unwrap();
            let payload = receive.payload(PAYLOAD_MAX, soon()).unwrap();
            send.send(&h, &[&payload], soon()).unwrap();
        }
    });
    for n in [0usize, 5, 10_000, 3 << 20] {
        let payload: Vec<u8> = (0..n).map(|i| (i * 7 + n) as u8).collect();
        let h = Header { request: n as u64, clock: 9, ..Header::new(5) };
        let (left, right) = payload.split_at(n / 3);
        a.send(&h, &[left, right], soon()).unwrap();
        let got = a.receiver().header(soon()).unwrap();
        assert_eq!((got.kind, got.request, got.clock, got.length as usize), (5, n as u64, 9, n));
        let mut into = vec![0; n];
        a.receiver().payload_into(&mut into, soon()).unwrap();
        assert!(into == payload, "{n} bytes");
    }
    back.join().unwrap();
}

#[test]
fn frames_over_tcp_unix_and_in_process() {
    let (a, b) = connect(&"127.0.0.1:0".parse().unwrap());
    echo(a, b);
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = connect(&Address::Unix(dir.path().join("socket")));
    echo(a, b);
    let (a, b) = Connection::pair().unwrap();
    echo(a, b);
}

#[test]
fn one_machine_shares_memory_and_notices_a_lost_peer() {
    let (mut a, b) = connect(&"127.0.0.1:0".parse().unwrap());
    assert!(a.is_shared() && b.is_shared());
    let (sender, receiver) = b.split();
    let other = sender.try_clone().unwrap();
    sender.close();
    assert!(a.receiver().header(soon()).unwrap_err().is_gone());
    drop((sender, receiver, other));
    // Longer than the memory between them: there will be no room.
    assert!(a.send(&Header::new(1), &[&vec![0; 4 << 20]], soon()).unwrap_err().is_gone());
}

const CALL: &str = "TALWEG_TEST_CALL";

/// What the other process of the next test does: it is this program again, told whom to call.
#[test]
fn the_other_process() {
    let Ok(at) = std::env::var(CALL) else { return };
    let mut c =
        Connection::connect(&at.parse().unwrap(), &Hello::new("child", 0), secret(GOOD).as_ref(), soon()).unwrap();
    assert!(c.is_shared());
    loop {
        let h = c.receiver().header(soon()).unwrap();
        let payload = c.receiver().payload(PAYLOAD_MAX, soon()).unwrap();
        c.send(&h, &[&payload], soon()).unwrap();
    }
}

#[test]
fn processes_share_memory_and_a_killed_one_is_noticed() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), secret(GOOD)).unwrap();
    let me = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(me)
        .args(["--exact", "the_other_process"])
        .env(CALL, listener.address().to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut c = listener.accept().unwrap().handshake(soon()).unwrap();
    assert!(c.is_shared());
    for n in [0usize, 5, 700_000] {
        let payload: Vec<u8> = (0..n).map(|i| (i * 13) as u8).collect();
        c.send(&Header::new(3), &[&payload], soon()).unwrap();
        c.receiver().header(soon()).unwrap();
        assert!(c.receiver().payload(PAYLOAD_MAX, soon()).unwrap() == payload, "{n} bytes");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(c.receiver().header(soon()).unwrap_err().is_gone());
    assert!(c.send(&Header::new(1), &[&vec![0; 4 << 20]], soon()).unwrap_err().is_gone());
}

#[test]
fn a_payload_nobody_took_is_skipped() {
    let (mut a, mut b) = Connection::pair().unwrap();
    a.send(&Header::new(1), &[&[1; 10_000]], soon()).unwrap();
    a.send(&Header::new(2), &[b"x"], soon()).unwrap();
    assert_eq!(b.receiver().header(soon()).unwrap().kind, 1);
    assert!(b.receiver().payload(9_999, soon()).is_err(), "longer than the caller allows");
    assert_eq!(b.receiver().header(soon()).unwrap().kind, 2);
    assert_eq!(b.receiver().payload(1, soon()).unwrap(), b"x");
}

#[test]
fn other_secrets_are_refused_at_both_ends() {
    for (ours, theirs) in
        [(secret(GOOD), secret("another secret altogether")), (secret(GOOD), None), (None, secret(GOOD))]
    {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), ours).unwrap();
        let address = listener.address().clone();
        let call = thread::spawn(move || Connection::connect(&address, &Hello::new("x", 0), theirs.as_ref(), soon()));
        assert!(listener.accept().unwrap().handshake(soon()).is_err());
        assert!(matches!(call.join().unwrap(), Err(Error::Refused(_))), "the caller checks the listener too");
    }
}

#[test]
fn other_machines_need_a_secret() {
    assert!(Listener::bind(&"0.0.0.0:0".parse().unwrap(), None).is_err());
    assert!(Listener::bind(&"0.0.0.0:0".parse().unwrap(), secret(GOOD)).is_ok());
    let far = "192.0.2.1:1".parse().unwrap();
    let e = Connection::connect(&far, &Hello::default(), None, soon()).unwrap_err();
    assert!(e.to_string().contains("secret or certificates are required"), "{e}");
    assert!(Secret::new("short").is_err());
}

#[test]
fn a_recorded_handshake_does_not_open_the_door_again() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), secret(GOOD)).unwrap();
    let Address::Tcp(real) = listener.address().clone() else { panic!() };
    // A proxy that records what the caller says.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxied = Address::Tcp(proxy.local_addr().unwrap());
    let tap = thread::spawn(move || {
        let (mut caller, _) = proxy.accept().unwrap();
        let mut server = TcpStream::connect(real).unwrap();
        let (mut back, mut front) = (server.try_clone().unwrap(), caller.try_clone().unwrap());
        let down = thread::spawn(move || std::io::copy(&mut back, &mut front));
        let mut recorded = Vec::new();
        let mut b = [0; 4096];
        while let Ok(n) = caller.read(&mut b) {
            if n == 0 {
                break;
            }
            recorded.extend_from_slice(&b[..n]);
            server.write_all(&b[..n]).unwrap();
        }
        drop(server.shutdown(std::net::Shutdown::Both));
        down.join().unwrap().ok();
        recorded
    });
    let call = thread::spawn(move || {
        Connection::connect(&proxied, &Hello::new("w", 1), secret(GOOD).as_ref(), soon()).unwrap()
    });
    listener.accept().unwrap().handshake(soon()).unwrap();
    drop(call.join().unwrap());
    let recorded = tap.join().unwrap();
    let mut again = TcpStream::connect(real).unwrap();
    again.write_all(&recorded).unwrap();
    assert!(listener.accept().unwrap().handshake(soon()).is_err());
}

#[test]
fn silence_ends_at_the_deadline() {
    let (mut a, _b) = Connection::pair().unwrap();
    let e = a.receiver().header(Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(matches!(e, Error::Deadline(_)), "{e}");
    // There is no reader: the pipe fills up and the sender gives up.
    let full = vec![0; 8 << 20];
    let e = a.send(&Header::new(1), &[&full], Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(matches!(e, Error::Deadline(_)), "{e}");
    // A silent caller does not block the listener.
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let Address::Tcp(at) = listener.address().clone() else { panic!() };
    let _quiet = TcpStream::connect(at).unwrap();
    let e = listener.accept().unwrap().handshake(Instant::now() + Duration::from_millis(20)).err().unwrap();
    assert!(matches!(e, Error::Deadline(_)), "{e}");
}

#[test]
fn a_dead_peer_is_noticed_at_once() {
    let (mut a, b) = connect(&"127.0.0.1:0".parse().unwrap());
    drop(b);
    assert!(a.receiver().header(soon()).unwrap_err().is_gone());
    let unbound = {
        let l = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
        l.address().clone()
    };
    assert!(Connection::connect(&unbound, &Hello::default(), None, soon()).unwrap_err().is_gone());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Random bytes, alone or after a good header, never get past the door.
    #[test]
    fn random_bytes_are_refused(noise in proptest::collection::vec(any::<u8>(), 64..400), with_header in any::<bool>()) {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), secret(GOOD)).unwrap();
        let Address::Tcp(at) = listener.address().clone() else { panic!() };
        let mut s = TcpStream::connect(at).unwrap();
        if with_header {
            let h = Header { length: noise.len() as u32, ..Header::new(0xF0) };
            s.write_all(&h.encode()).unwrap();
        }
        s.write_all(&noise).unwrap();
        s.shutdown(std::net::Shutdown::Write).unwrap();
        prop_assert!(listener.accept().unwrap().handshake(soon()).is_err());
    }
}
