//! Ports for servers that are told theirs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first of this many consecutive free ports of 127.0.0.1. They lie below the ephemeral range: a process that
/// binds port 0 meanwhile does not get one of them. Other calls and other processes begin elsewhere.
pub fn free_ports(count: u16) -> u16 {
    const FIRST: u32 = 10_000;
    const SPAN: u32 = 22_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(2_654_435_761) >> 8;
    let free = |port: &u16| (*port..*port + count).all(|p| TcpListener::bind(("127.0.0.1", p)).is_ok());
    std::iter::repeat_with(|| CALLS.fetch_add(u32::from(count), Ordering::Relaxed))
        .map(|offset| (FIRST + (start + offset) % SPAN) as u16)
        .take(SPAN as usize)
        .find(free)
        .expect("free ports between 10000 and 32000")
}
