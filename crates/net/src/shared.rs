//! Shared memory between two processes of one machine: a ring of bytes in each direction.
//!
//! The caller makes a piece of memory without a name, sealed so that its size cannot change, and
//! says over its authenticated socket where to find it; the listener maps the same memory, or
//! says that it cannot, and the socket goes on carrying the bytes. The socket stays open beside
//! the rings: it is how each end notices that the other one has died.
//!
//! The one file of this crate with `unsafe`: memory that another process writes has no owner that
//! the compiler knows. Bytes are copied in and out; positions that the other end writes are
//! checked before they are used.

#![allow(unsafe_code)]

use crate::stream::WATCH;
use crate::{Error, Result};
use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::thread::futex;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of one ring: it stays in the cache of a core.
const RING_BYTES: usize = 1 << 20;
/// Bytes before the first ring and before each ring's bytes.
const PAGE: usize = 4096;
const TOTAL: usize = PAGE + 2 * (PAGE + RING_BYTES);
const NONCE_BYTES: usize = 32;
/// Bytes of an element at most.
const UNIT_MAX: usize = 8;
/// How long to sleep before asking the socket whether the other end lives.
const GLANCE: Duration = Duration::from_millis(20);

/// Memory that both ends have mapped.
#[derive(Debug)]
struct Memory(MmapRaw);

/// The numbers of a ring, each in a cache line of its own; they only grow.
#[repr(C, align(64))]
struct Line<T>(T);
#[repr(C)]
struct Marks {
    /// Bytes ever written, by the writer.
    head: Line<AtomicU64>,
    /// Bytes ever read, by the reader.
    tail: Line<AtomicU64>,
    /// Changes when there are new bytes for a reader that sleeps.
    news: Line<AtomicU32>,
    reader_sleeps: Line<AtomicU32>,
    /// Changes when there is new room for a writer that sleeps.
    room: Line<AtomicU32>,
    writer_sleeps: Line<AtomicU32>,
    closed: Line<AtomicU32>,
}
const _: () = assert!(size_of::<Marks>() <= PAGE);

/// One direction.
#[derive(Clone, Debug)]
struct Ring {
    memory: Arc<Memory>,
    at: usize,
}

impl Ring {
    fn marks(&self) -> &Marks {
        // SAFETY: the mapping is TOTAL bytes long and lives as long as `memory`; `at` is page
        // aligned with PAGE bytes behind it; all fields are atomics, valid for any bits.
        unsafe { &*self.memory.0.as_ptr().add(self.at).cast::<Marks>() }
    }
    fn bytes(&self) -> *mut u8 {
        // SAFETY: `at` is that of one of the two rings, so the sum lies within the mapping.
        unsafe { self.memory.0.as_mut_ptr().add(self.at + PAGE) }
    }
    /// Bytes that wait to be read; an error if the other end has written nonsense.
    fn filled(&self, head: u64, tail: u64) -> io::Result<usize> {
        match head.wrapping_sub(tail) {
            n if n <= RING_BYTES as u64 => Ok(n as usize),
            n => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a ring holds {n} bytes"))),
        }
    }
    fn is_closed(&self) -> bool {
        self.marks().closed.0.load(Ordering::Acquire) != 0
    }
    fn close(&self) {
        let m = self.marks();
        m.closed.0.store(1, Ordering::SeqCst);
        for word in [&m.news.0, &m.room.0] {
            word.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(word, futex::Flags::empty(), u32::MAX);
        }
    }
    /// Copies out what is there.
    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        let m = self.marks();
        let tail = m.tail.0.load(Ordering::Relaxed);
        let n = self.filled(m.head.0.load(Ordering::Acquire), tail)?.min(into.len());
        if n == 0 {
            return Ok(0);
        }
        let start = tail as usize % RING_BYTES;
        let first = n.min(RING_BYTES - start);
        // SAFETY: both pieces lie within the ring and within `into`; the writer does not touch
        // bytes between tail and head.
        unsafe {
            std::ptr::copy_nonoverlapping(self.bytes().add(start), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(self.bytes(), into.as_mut_ptr().add(first), n - first);
        }
        m.tail.0.store(tail + n as u64, Ordering::SeqCst);
        wake(&m.writer_sleeps.0, &m.room.0);
        Ok(n)
    }
    /// Shows what is there, at most this many bytes of whole units, without a copy.
    fn show(&self, max: usize, unit: usize, to: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let m = self.marks();
        let tail = m.tail.0.load(Ordering::Relaxed);
        let n = self.filled(m.head.0.load(Ordering::Acquire), tail)?.min(max) / unit * unit;
        if n == 0 {
            return Ok(0);
        }
        let start = tail as usize % RING_BYTES;
        let first = n.min(RING_BYTES - start);
        // SAFETY: both pieces lie within the ring; the writer does not touch bytes between tail and
        // head, and the slices end before the tail moves on.
        let (mut a, mut b) = unsafe {
            (
                std::slice::from_raw_parts(self.bytes().add(start), first),
                std::slice::from_raw_parts(self.bytes(), n - first),
            )
        };
        // A unit may lie at the end and at the beginning.
        let rest = first % unit;
        let mut split = [0; UNIT_MAX];
        if rest > 0 {
            split[..rest].copy_from_slice(&a[first - rest..]);
            split[rest..unit].copy_from_slice(&b[..unit - rest]);
            (a, b) = (&a[..first - rest], &b[unit - rest..]);
        }
        for piece in [a, &split[..if rest > 0 { unit } else { 0 }], b] {
            if !piece.is_empty() {
                to(piece);
            }
        }
        m.tail.0.store(tail + n as u64, Ordering::SeqCst);
        wake(&m.writer_sleeps.0, &m.room.0);
        Ok(n)
    }
    /// Copies in what there is room for.
    fn write_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let m = self.marks();
        let head = m.head.0.load(Ordering::Relaxed);
        let free = RING_BYTES - self.filled(head, m.tail.0.load(Ordering::Acquire))?;
        let mut done = 0;
        for s in slices {
            let n = s.len().min(free - done);
            let start = (head as usize + done) % RING_BYTES;
            let first = n.min(RING_BYTES - start);
            // SAFETY: both pieces lie within the ring and within the slice; the reader does not
            // touch bytes from head on.
            unsafe {
                std::ptr::copy_nonoverlapping(s.as_ptr(), self.bytes().add(start), first);
                std::ptr::copy_nonoverlapping(s.as_ptr().add(first), self.bytes(), n - first);
            }
            done += n;
            if done == free {
                break;
            }
        }
        if done > 0 {
            m.head.0.store(head + done as u64, Ordering::SeqCst);
            wake(&m.reader_sleeps.0, &m.news.0);
        }
        Ok(done)
    }
}

/// Copies to memory that is not read soon: the caches keep what they hold, and what is overwritten
/// is not read first.
///
/// # Panics
/// If one is longer than the other.
#[cfg(target_arch = "x86_64")]
pub fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    assert_eq!(from.len(), to.len(), "lengths");
    let n = from.len();
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    let mut at = to.align_offset(64).min(n);
    // SAFETY: all places lie within the `n` bytes of either side, and those that are written past the
    // caches are aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, at);
        while at + 64 <= n {
            let (f, t) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let line: [__m128i; 4] = std::array::from_fn(|i| _mm_loadu_si128(f.add(i)));
            line.into_iter().enumerate().for_each(|(i, x)| _mm_stream_si128(t.add(i), x));
            at += 64;
        }
        std::ptr::copy_nonoverlapping(from.add(at), to.add(at), n - at);
        _mm_sfence();
    }
}
/// Copies to memory that is not read soon; here as any other.
#[cfg(not(target_arch = "x86_64"))]
pub fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Wakes the other end if it said that it sleeps.
fn wake(sleeps: &AtomicU32, word: &AtomicU32) {
    if sleeps.load(Ordering::SeqCst) != 0 && sleeps.swap(0, Ordering::SeqCst) != 0 {
        word.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX);
    }
}
/// Says that this end sleeps, and does so unless `is_ready` after all.
fn sleep(sleeps: &AtomicU32, word: &AtomicU32, time: Duration, is_ready: impl Fn() -> bool) {
    let seen = word.load(Ordering::SeqCst);
    sleeps.store(1, Ordering::SeqCst);
    if is_ready() {
        return;
    }
    let time = rustix::time::Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    // Woken, too late to sleep, or nothing came: the caller looks again in any case.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&time));
}

/// Memory that is offered, before the other end has taken it.
pub(crate) struct Offer {
    memory: Arc<Memory>,
    file: File,
    nonce: [u8; NONCE_BYTES],
}

impl Offer {
    /// Makes the memory; fails where the system has no such thing.
    pub fn make(nonce: [u8; NONCE_BYTES]) -> io::Result<Offer> {
        let fd = memfd_create("talweg-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = File::from(fd);
        file.set_len(TOTAL as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Arc::new(Memory(MmapRaw::map_raw(&file)?));
        // SAFETY: the mapping is longer than a nonce, and no other process knows it yet.
        unsafe { std::ptr::copy_nonoverlapping(nonce.as_ptr(), memory.0.as_mut_ptr(), NONCE_BYTES) };
        Ok(Offer { memory, file, nonce })
    }
    /// Where the other end finds it.
    pub fn text(&self) -> Vec<u8> {
        let mut out = self.nonce.to_vec();
        out.extend_from_slice(&std::process::id().to_le_bytes());
        out.extend_from_slice(&(self.file.as_raw_fd() as u32).to_le_bytes());
        out
    }
    /// The caller's rings.
    pub fn accepted(self) -> Rings {
        Rings::new(self.memory, 0)
    }
    /// The listener's rings from what the caller said; an error if this is another machine, or
    /// another user's memory.
    pub fn take(text: &[u8]) -> Result<Rings> {
        let bad = |what: &str| Error::Refused(format!("shared memory: {what}"));
        let (nonce, place) = text.split_at_checked(NONCE_BYTES).ok_or_else(|| bad("an offer is cut short"))?;
        let [a, b, c, d, e, f, g, h] = *place else { return Err(bad("an offer has the wrong length")) };
        let (pid, fd) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let failed = |e: io::Error| Error::Io { what: "taking shared memory".to_string(), source: e };
        let path = format!("/proc/{pid}/fd/{fd}");
        // Whatever the path leads to, opening it must not wait.
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = File::options().read(true).write(true).custom_flags(nonblock).open(path).map_err(failed)?;
        let seals = fcntl_get_seals(&file).map_err(|e| failed(e.into()))?;
        if !seals.contains(SealFlags::SHRINK) || file.metadata().map_err(failed)?.len() != TOTAL as u64 {
            return Err(bad("not what this program makes"));
        }
        let memory = Arc::new(Memory(MmapRaw::map_raw(&file).map_err(failed)?));
        let mut found = [0; NONCE_BYTES];
        // SAFETY: the mapping is longer than a nonce and cannot shrink.
        unsafe { std::ptr::copy_nonoverlapping(memory.0.as_ptr(), found.as_mut_ptr(), NONCE_BYTES) };
        if found != nonce {
            return Err(bad("another machine's"));
        }
        Ok(Rings::new(memory, 1))
    }
}

/// Both directions, as one end sees them. When the last handle is dropped the other end is told.
#[derive(Clone, Debug)]
pub(crate) struct Rings(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    incoming: Ring,
    outgoing: Ring,
}
impl Ends {
    fn close(&self) {
        self.incoming.close();
        self.outgoing.close();
    }
}
impl Drop for Ends {
    fn drop(&mut self) {
        self.close();
    }
}

impl Rings {
    fn new(memory: Arc<Memory>, side: usize) -> Rings {
        let ring = |i: usize| Ring { memory: memory.clone(), at: PAGE + i * (PAGE + RING_BYTES) };
        Rings(Arc::new(Ends { incoming: ring(1 - side), outgoing: ring(side) }))
    }
    /// The ends of rings within this process.
    pub fn pair(nonce: [u8; NONCE_BYTES]) -> io::Result<(Rings, Rings)> {
        let memory = Offer::make(nonce)?.memory;
        Ok((Rings::new(memory.clone(), 0), Rings::new(memory, 1)))
    }
    pub fn close(&self) {
        self.0.close();
    }
    /// Reads what is there; `WouldBlock` if nothing is, 0 if nothing will come.
    pub fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.incoming.read_now(into)? {
            0 if into.is_empty() || self.0.incoming.is_closed() => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
    /// As [`Rings::read_now`], shown where it lies: at most this many bytes, of whole units.
    pub fn show_now(&self, max: usize, unit: usize, to: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        match self.0.incoming.show(max, unit, to)? {
            0 if self.0.incoming.is_closed() => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
    /// Bytes that wait to be read, and the first of them, as many as there is room for.
    pub fn peek(&self, first: &mut [u8]) -> usize {
        let (ring, m) = (&self.0.incoming, self.0.incoming.marks());
        let tail = m.tail.0.load(Ordering::Relaxed);
        let n = ring.filled(m.head.0.load(Ordering::Acquire), tail).unwrap_or(0);
        for (i, b) in first.iter_mut().enumerate().take(n) {
            // SAFETY: a place of the ring; the writer does not touch bytes between tail and head.
            *b = unsafe { *ring.bytes().add((tail as usize + i) % RING_BYTES) };
        }
        n
    }
    /// Reads something by `read`, by then; `is_gone` tells whether the other end has died.
    pub fn read(
        &self,
        mut read: impl FnMut(&Rings) -> io::Result<usize>,
        until: Instant,
        is_gone: impl Fn() -> bool,
    ) -> io::Result<usize> {
        let (ring, m) = (&self.0.incoming, self.0.incoming.marks());
        loop {
            match read(self) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if is_gone() {
                // What it wrote before it died still counts.
                return match read(self) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                    done => done,
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let tail = m.tail.0.load(Ordering::Relaxed);
            let is_ready = || m.head.0.load(Ordering::SeqCst) != tail || ring.is_closed();
            sleep(&m.reader_sleeps.0, &m.news.0, left.min(GLANCE), is_ready);
        }
    }
    /// Writes what there is room for; `WouldBlock` if there is none.
    pub fn write_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.0.outgoing.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match self.0.outgoing.write_now(slices)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
    /// Writes something, by then.
    pub fn write(&self, slices: &[IoSlice<'_>], until: Instant, is_gone: impl Fn() -> bool) -> io::Result<usize> {
        let (ring, m) = (&self.0.outgoing, self.0.outgoing.marks());
        let start = Instant::now();
        loop {
            if ring.is_closed() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let n = ring.write_now(slices)?;
            if n > 0 {
                return Ok(n);
            }
            // A reader at work makes room sooner than it could wake this end.
            if start.elapsed() < WATCH {
                std::thread::yield_now();
                continue;
            }
            if is_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let full = m.head.0.load(Ordering::Relaxed).wrapping_sub(RING_BYTES as u64);
            let is_ready = || m.tail.0.load(Ordering::SeqCst) != full || ring.is_closed();
            sleep(&m.writer_sleeps.0, &m.room.0, left.min(GLANCE), is_ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings() -> (Rings, Rings) {
        Rings::pair([7; NONCE_BYTES]).unwrap()
    }
    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn bytes_come_in_order_around_the_ring() {
        let (a, b) = rings();
        let all: Vec<u8> = (0..5 * RING_BYTES + 77).map(|i| (i * 31 % 251) as u8).collect();
        let sent = all.clone();
        let writing = std::thread::spawn(move || {
            let mut at = 0;
            while at < sent.len() {
                let end = (at + 99_991).min(sent.len());
                at += a.write(&[IoSlice::new(&sent[at..end])], soon(), || false).unwrap();
            }
        });
        let mut got = vec![0; all.len()];
        let mut at = 0;
        while at < got.len() {
            let end = (at + 70_001).min(got.len());
            at += b.read(|r| r.read_now(&mut got[at..end]), soon(), || false).unwrap();
        }
        writing.join().unwrap();
        assert!(got == all);
    }

    #[test]
    fn bytes_are_shown_where_they_lie_in_whole_units() {
        let (a, b) = rings();
        // After three bytes every unit of eight is out of place, and one lies at both ends of the ring.
        a.write(&[IoSlice::new(b"abc")], soon(), || false).unwrap();
        assert_eq!(b.read_now(&mut [0; 3]).unwrap(), 3);
        let all: Vec<u8> = (0..2 * RING_BYTES).map(|i| (i * 31 % 251) as u8).collect();
        let (mut got, mut sent) = (Vec::new(), 0);
        while got.len() < all.len() {
            let end = (sent + 99_991).min(all.len());
            sent += a.write_now(&[IoSlice::new(&all[sent..end])]).unwrap_or(0);
            let mut first = [0; 2];
            assert!(b.peek(&mut first) >= 8 && first == all[got.len()..got.len() + 2]);
            let shown = b.show_now(64 << 10, 8, &mut |piece| {
                assert!(piece.len().is_multiple_of(8));
                got.extend_from_slice(piece);
            });
            assert!(shown.unwrap() <= 64 << 10);
        }
        assert!(got == all);
        assert_eq!(b.show_now(8, 8, &mut |_| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_is_copied_past_caches_is_what_was_there() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        for (start, len) in [(0, 0), (1, 5), (3, 63), (0, 64), (5, 640), (17, 983)] {
            let mut to = vec![9; 1002];
            copy_past_caches(&from[start..start + len], &mut to[1..1 + len]);
            assert_eq!(to[1..1 + len], from[start..start + len]);
            assert!(to[0] == 9 && to[1 + len..].iter().all(|x| *x == 9), "{start} {len}");
        }
    }

    #[test]
    fn nobody_waits_for_the_dead_or_past_a_deadline() {
        let (a, b) = rings();
        let now = Instant::now();
        assert_eq!(a.read(|r| r.read_now(&mut [0]), now, || false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        b.write(&[IoSlice::new(b"last")], soon(), || false).unwrap();
        let mut got = [0; 9];
        assert_eq!(a.read(|r| r.read_now(&mut got), soon(), || true).unwrap(), 4, "what was written before it died");
        assert_eq!(a.read(|r| r.read_now(&mut got), soon(), || true).unwrap(), 0);
        let waiting = std::thread::spawn(move || a.read(|r| r.read_now(&mut [0]), soon(), || false));
        b.close();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
        assert_eq!(b.write(&[IoSlice::new(b"x")], soon(), || false).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn nonsense_positions_and_offers_are_refused() {
        let (a, b) = rings();
        b.0.outgoing.marks().head.0.store(u64::MAX / 2, Ordering::SeqCst);
        assert_eq!(a.read_now(&mut [0]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(Offer::take(b"short").is_err());
        let mut other = Offer::make([1; NONCE_BYTES]).unwrap().text();
        assert!(Offer::take(&other).is_err(), "its memory is gone with the offer");
        other[NONCE_BYTES + 4..].copy_from_slice(&0u32.to_le_bytes());
        assert!(Offer::take(&other).is_err(), "standard input");
        let offer = Offer::make([1; NONCE_BYTES]).unwrap();
        let mut text = offer.text();
        assert!(Offer::take(&text).is_ok());
        text[0] ^= 1;
        assert!(Offer::take(&text).unwrap_err().to_string().contains("another machine"));
    }
}
