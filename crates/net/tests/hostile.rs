//! Damaged and invented bytes, by the seed: headers and handshakes. Nothing panics, nothing is
//! taken for what it is not, and the door stays open for those who can prove themselves.
//!
//! `TALWEG_INPUTS=10000000 cargo test --release -p talweg-net --test hostile` is the long run.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, HEADER_BYTES, Header, Hello, Listener, Secret};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}
fn inputs(most: usize) -> usize {
    std::env::var("TALWEG_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(most)
}

/// Numbers by the seed.
struct Seeded(u64);
impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// Changes bytes in one of the ways that find mistakes.
    fn damage(&mut self, b: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(b.len());
            match self.below(6) {
                0 if !b.is_empty() => b[at] ^= 1 << self.below(8),
                1 if !b.is_empty() => b[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 if b.len() >= at + 4 => b[at..at + 4].copy_from_slice(&(self.next() as u32).to_le_bytes()),
                3 => b.truncate(at),
                4 => b.insert(at, self.next() as u8),
                _ => b.extend_from_within(at..),
            }
        }
    }
}
/// Makes the checksum of a header right, so that damage is met behind it.
fn seal(b: &mut [u8]) {
    if b.len() >= HEADER_BYTES {
        let sum = crc32c::crc32c(&b[..60]);
        b[60..64].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn headers_are_read_back_or_refused() {
    let mut r = Seeded(1);
    for i in 0..inputs(300_000) {
        let h = Header { kind: r.next() as u8, length: r.next() as u32 >> 3, key: r.next(), ..Header::default() };
        let mut b = h.encode().to_vec();
        r.damage(&mut b);
        b.resize(HEADER_BYTES, 0);
        if i % 2 == 0 {
            seal(&mut b);
        }
        let b: [u8; HEADER_BYTES] = b.try_into().unwrap();
        if let Ok(h) = Header::decode(&b) {
            assert_eq!(h.encode(), b, "input {i}");
        }
    }
}

/// What a good caller says first.
fn greeting(listener: &Listener, secret: &Secret) -> Vec<u8> {
    let Address::Tcp(_) = listener.address() else { panic!("it listens on TCP") };
    let tap = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::Tcp(tap.local_addr().unwrap());
    let secret = secret.clone();
    let call = std::thread::spawn(move || Connection::connect(&at, &Hello::new("worker", 1), Some(&secret), soon()));
    let (mut s, _) = tap.accept().unwrap();
    let mut b = vec![0; 4096];
    let n = s.read(&mut b).unwrap();
    drop(s);
    assert!(call.join().unwrap().is_err());
    b.truncate(n);
    b
}

#[test]
fn damaged_handshakes_are_refused_and_good_ones_are_not() {
    let secret = Secret::new("correct horse battery staple").unwrap();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Some(secret.clone())).unwrap();
    let Address::Tcp(at) = listener.address().clone() else { panic!() };
    let good = greeting(&listener, &secret);
    let mut r = Seeded(2);
    for i in 0..inputs(400).min(100_000) {
        let mut b = good.clone();
        // A greeting, or two of them, with whatever happens to them on the way.
        if i % 3 == 0 {
            b.extend_from_slice(&good);
        }
        r.damage(&mut b);
        if i % 2 == 0 {
            seal(&mut b);
        }
        let mut s = TcpStream::connect(at).unwrap();
        s.write_all(&b).unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        assert!(listener.accept().unwrap().handshake(soon()).is_err(), "input {i}");
    }
    let address = listener.address().clone();
    let call = std::thread::spawn(move || Connection::connect(&address, &Hello::default(), Some(&secret), soon()));
    assert!(listener.accept().unwrap().handshake(soon()).is_ok());
    call.join().unwrap().unwrap();
}
