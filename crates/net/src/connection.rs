//! Connections: sockets whose ends have proved who they are, carrying frames both ways.

use crate::auth::{self, Hello, NONCE_BYTES, PROOF_BYTES, Secret, Side, Transcript};
use crate::frame::CHECKED;
use crate::pump::Pump;
use crate::seal::{self, Seal, TAG_BYTES, Tag};
use crate::shared::{Offer, Rings};
use crate::stream::Stream;
use crate::tls::{Session, Tls};
use crate::{Address, Error, HANDSHAKE_KINDS, HEADER_BYTES, Header, PAYLOAD_MAX, Result};
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Kinds of the handshake; applications use others.
const CHALLENGE: u8 = HANDSHAKE_KINDS + 1;
const PROOF: u8 = HANDSHAKE_KINDS + 2;
const WELCOME: u8 = HANDSHAKE_KINDS + 3;
const HELLO: u8 = HANDSHAKE_KINDS + 4;
/// What a listener says who has taken the memory that the caller offered.
const SHARES: &[u8] = &[1];
/// A greeting is short; anything longer is not one.
const HELLO_MAX: usize = 512;
/// Bytes read ahead, so that small frames cost one read.
const AHEAD: usize = 8 << 10;
/// Frames that go out with one call of the system at most.
pub const TOGETHER: usize = 16;
/// Whether processes of one machine share memory: `TALWEG_LINK=socket` says that they do not.
fn shares() -> Result<bool> {
    match std::env::var("TALWEG_LINK").as_deref() {
        Err(_) | Ok("memory") => Ok(true),
        Ok("socket") => Ok(false),
        Ok(other) => Err(Error::Refused(format!("TALWEG_LINK is memory or socket, not {other:?}"))),
    }
}

/// Time left, or the error that there is none.
fn left(deadline: Instant, doing: &'static str) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::Deadline(doing)) } else { Ok(left) }
}

/// An authenticated link to one peer.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
    peer: Hello,
}

impl Connection {
    /// Calls a listener and proves the secret.
    pub fn connect(to: &Address, hello: &Hello, secret: Option<&Secret>, deadline: Instant) -> Result<Connection> {
        if secret.is_none() && !to.is_local() {
            return Err(Error::Refused(format!(
                "{to} is another machine: a shared secret or certificates are required"
            )));
        }
        let wait = left(deadline, "connecting")?;
        let failed = |e: io::Error| match Error::of(e, "connecting") {
            Error::Gone(why) => Error::Gone(format!("{to}: {why}")),
            e => e,
        };
        let stream = match to {
            Address::Tcp(a) => TcpStream::connect_timeout(a, wait).map_err(failed)?.into(),
            Address::Unix(p) => UnixStream::connect(p).map_err(failed)?.into(),
        };
        let mut c = Connection::over(stream)?;
        if let Some(tls) = c.tls(secret) {
            c = c.encrypted(tls.caller()?, deadline)?;
        }
        c.prove(hello, secret, deadline)?;
        Ok(c)
    }
    /// Retries until a listener answers or the deadline passes.
    pub fn connect_retry(
        to: &Address,
        hello: &Hello,
        secret: Option<&Secret>,
        deadline: Instant,
    ) -> Result<Connection> {
        let mut pause = Duration::from_millis(2);
        loop {
            match Connection::connect(to, hello, secret, deadline) {
                Err(e @ (Error::Gone(_) | Error::Io { .. })) => {
                    if Instant::now() + pause >= deadline {
                        return Err(e);
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
                done => return done,
            }
        }
    }
    /// Two connected ends in this process.
    pub fn pair() -> Result<(Connection, Connection)> {
        let (a, b) = UnixStream::pair().map_err(|e| Error::of(e, "making a pair"))?;
        let (mut a, mut b) = (Connection::over(a.into())?, Connection::over(b.into())?);
        // Where there is no such memory the sockets carry the bytes.
        if let Ok((x, y)) = Rings::pair(auth::nonce()?) {
            a.share(&x);
            b.share(&y);
        }
        Ok((a, b))
    }
    fn over(stream: Stream) -> Result<Connection> {
        let failed = |e| Error::of(e, "setting up a socket");
        stream.set_up().map_err(failed)?;
        // Within a machine nothing is damaged on the way; between machines TCP's own sum is weak.
        let checked = !stream.is_local();
        let write = stream.try_clone().map_err(failed)?;
        Ok(Connection {
            sender: Sender { stream: write, checked, seal: None },
            receiver: Receiver {
                stream,
                ahead: vec![0; AHEAD].into(),
                at: 0,
                end: 0,
                pending: None,
                seal: None,
                frame: 0,
            },
            peer: Hello::default(),
        })
    }
    /// The certificates, if this link is one that TLS is for: Unix sockets stay on the machine.
    fn tls<'a>(&self, secret: Option<&'a Secret>) -> Option<&'a Tls> {
        secret.and_then(|s| s.tls.as_ref()).filter(|_| self.receiver.stream.is_tcp())
    }
    /// The same link under TLS, which has checksums of its own.
    fn encrypted(mut self, session: Session, deadline: Instant) -> Result<Connection> {
        let failed = |e| Error::of(e, "shaking hands");
        self.receiver.stream.encrypt(session, deadline).map_err(failed)?;
        self.sender = Sender { stream: self.receiver.stream.try_clone().map_err(failed)?, checked: false, seal: None };
        Ok(self)
    }
    fn share(&mut self, rings: &Rings) {
        self.sender.stream.share(rings.clone());
        self.receiver.stream.share(rings.clone());
    }
    /// From now on a network that delivers nothing for so long, however little is said, ends the
    /// connection. (Without it the system tries for a quarter of an hour, ever more rarely.)
    pub fn detect_loss(&self, within: Duration) -> Result<()> {
        self.receiver.stream.detect_loss(within).map_err(|e| Error::of(e, "setting up a socket"))
    }
    /// True if the bytes go through memory that both ends share.
    pub fn is_shared(&self) -> bool {
        self.sender.stream.is_shared()
    }
    /// From now on every frame is authenticated, where nothing else sees to it: with keys for what
    /// this end sends and for what it receives.
    fn seal(&mut self, secret: Option<&Secret>, sends: [u8; 32], receives: [u8; 32]) {
        let stream = &self.sender.stream;
        let is_guarded = stream.is_shared() || stream.is_encrypted() || !stream.is_tcp();
        if !is_guarded && secret.is_some_and(Secret::has_text) {
            (self.sender.seal, self.receiver.seal) = (Some(Seal::new(sends)), Some(Seal::new(receives)));
            self.sender.checked = false;
        }
    }
    /// True if every frame carries a tag that proves where it comes from.
    pub fn is_sealed(&self) -> bool {
        self.sender.seal.is_some()
    }
    /// True if the bytes of the socket are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.sender.stream.is_encrypted()
    }
    /// Who is at the other end; for a caller, empty.
    pub fn peer(&self) -> &Hello {
        &self.peer
    }
    /// Sends a frame.
    pub fn send(&mut self, header: &Header, parts: &[&[u8]], deadline: Instant) -> Result<()> {
        self.sender.send(header, parts, deadline)
    }
    /// The receiving half.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }
    /// The halves, for two threads.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
    /// Both halves at once.
    pub fn halves(&mut self) -> (&mut Sender, &mut Receiver) {
        (&mut self.sender, &mut self.receiver)
    }

    fn expect(&mut self, kind: u8, deadline: Instant) -> Result<Vec<u8>> {
        let h = self.receiver.header(deadline)?;
        if h.kind != kind {
            return Err(Error::Refused(format!("handshake: message {kind:#x} was expected, not {:#x}", h.kind)));
        }
        self.receiver.payload(HELLO_MAX, deadline)
    }
    /// The caller's part of the handshake.
    fn prove(&mut self, hello: &Hello, secret: Option<&Secret>, deadline: Instant) -> Result<()> {
        let (mine, text) = (auth::nonce()?, hello.encode());
        self.send(&Header::new(HELLO), &[&mine, &text], deadline)?;
        let answer = self.expect(CHALLENGE, deadline)?;
        if answer.len() != NONCE_BYTES + PROOF_BYTES {
            return Err(Error::Refused("handshake: a challenge of the wrong length".to_string()));
        }
        let (theirs, proof) = answer.split_at(NONCE_BYTES);
        let said = Transcript { secret, caller: &mine, listener: theirs, hello: &text };
        said.check(Side::Listener, &[], proof)?;
        // On one machine the bytes had better go through memory.
        let offer = if self.sender.stream.is_local() && shares()? { Offer::make(auth::nonce()?).ok() } else { None };
        let place = offer.as_ref().map(Offer::text).unwrap_or_default();
        let proof = said.prove(Side::Caller, &place);
        self.send(&Header::new(PROOF), &[&proof, &place], deadline)?;
        let welcome = self.expect(WELCOME, deadline)?;
        let (proof, answer) = welcome.split_at(welcome.len().min(PROOF_BYTES));
        said.check(Side::Welcome, answer, proof)?;
        if let Some(offer) = offer.filter(|_| answer == SHARES) {
            self.share(&offer.accepted());
        }
        let [caller, listener] = said.keys();
        self.seal(secret, caller, listener);
        Ok(())
    }
    /// The listener's part of the handshake.
    fn challenge(&mut self, secret: Option<&Secret>, deadline: Instant) -> Result<()> {
        let greeting = self.expect(HELLO, deadline)?;
        if greeting.len() < NONCE_BYTES {
            return Err(Error::Refused("handshake: a greeting without a nonce".to_string()));
        }
        let (theirs, text) = greeting.split_at(NONCE_BYTES);
        self.peer = Hello::decode(text)?;
        let mine = auth::nonce()?;
        let said = Transcript { secret, caller: theirs, listener: &mine, hello: text };
        let proof = said.prove(Side::Listener, &[]);
        self.send(&Header::new(CHALLENGE), &[&mine, &proof], deadline)?;
        let answer = self.expect(PROOF, deadline)?;
        let (proof, place) = answer.split_at(answer.len().min(PROOF_BYTES));
        said.check(Side::Caller, place, proof)?;
        // Memory that cannot be had, in another container perhaps, is no reason to refuse.
        let rings = if place.is_empty() || !shares()? { None } else { Offer::take(place).ok() };
        let answer = if rings.is_some() { SHARES } else { &[] };
        self.send(&Header::new(WELCOME), &[&said.prove(Side::Welcome, answer), answer], deadline)?;
        if let Some(rings) = rings {
            self.share(&rings);
        }
        let [caller, listener] = said.keys();
        self.seal(secret, listener, caller);
        Ok(())
    }
}

/// The half that sends.
#[derive(Debug)]
pub struct Sender {
    stream: Stream,
    checked: bool,
    seal: Option<Seal>,
}

/// What goes before and after the payload of a frame: its header, and tags if frames have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    head: [u8; HEADER_BYTES + TAG_BYTES],
    head_len: usize,
    tail: Tag,
    tail_len: usize,
}
impl Ends {
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }
    pub fn tail(&self) -> &[u8] {
        &self.tail[..self.tail_len]
    }
}

impl Sender {
    /// Sends a frame whose payload is the parts one after the other, without copying them.
    /// After an error the connection is useless: part of a frame may be in transit.
    pub fn send(&mut self, header: &Header, parts: &[&[u8]], deadline: Instant) -> Result<()> {
        self.send_frames(&[(*header, parts)], deadline)
    }
    /// Sends frames one after the other as [`Sender::send`] does, with few calls of the system.
    pub fn send_frames<'a, P: AsRef<[&'a [u8]]>>(&mut self, frames: &[(Header, P)], deadline: Instant) -> Result<()> {
        for some in frames.chunks(TOGETHER) {
            let mut ends: SmallVec<[Ends; TOGETHER]> = SmallVec::new();
            for (header, parts) in some {
                ends.push(self.ends(header, parts.as_ref())?);
            }
            let mut slices: SmallVec<[IoSlice; 6 * TOGETHER]> = SmallVec::new();
            for (ends, (_, parts)) in ends.iter().zip(some) {
                slices.push(IoSlice::new(ends.head()));
                let rest = parts.as_ref().iter().copied().chain([ends.tail()]);
                slices.extend(rest.filter(|p| !p.is_empty()).map(IoSlice::new));
            }
            self.write_all(&mut slices, deadline)?;
        }
        Ok(())
    }
    /// What goes around a payload. Frames go out in the order in which this is asked.
    pub(crate) fn ends(&self, header: &Header, parts: &[&[u8]]) -> Result<Ends> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        if length > PAYLOAD_MAX {
            return Err(Error::Refused(format!("a payload has at most {PAYLOAD_MAX} bytes, not {length}")));
        }
        let mut h = Header { length: length as u32, payload_crc: 0, flags: header.flags & !CHECKED, ..*header };
        if self.checked {
            h.flags |= CHECKED;
            h.payload_crc = parts.iter().fold(0, |crc, p| crc32c::crc32c_append(crc, p));
        }
        let (bytes, mut head) = (h.encode(), [0; HEADER_BYTES + TAG_BYTES]);
        head[..HEADER_BYTES].copy_from_slice(&bytes);
        let mut ends = Ends { head, head_len: HEADER_BYTES, tail: Tag::default(), tail_len: 0 };
        if let Some(seal) = &self.seal {
            let number = seal.number();
            ends.head[HEADER_BYTES..].copy_from_slice(&seal.header(number, &bytes));
            ends.head_len += TAG_BYTES;
            if length > 0 {
                (ends.tail, ends.tail_len) = (seal.payload(number, parts), TAG_BYTES);
            }
        }
        Ok(ends)
    }
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }
    fn write_all(&mut self, mut slices: &mut [IoSlice], deadline: Instant) -> Result<()> {
        const DOING: &str = "sending";
        while !slices.is_empty() {
            match self.stream.write(slices, deadline) {
                Ok(0) => return Err(Error::Gone("the connection takes no more".to_string())),
                Ok(n) => IoSlice::advance_slices(&mut slices, n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.stream.error(e, DOING)),
            }
        }
        Ok(())
    }
    /// Ends the connection in both directions.
    pub fn close(&self) {
        self.stream.shutdown();
    }
    /// Another handle to the same sending half.
    pub fn try_clone(&self) -> Result<Sender> {
        let stream = self.stream.try_clone().map_err(|e| Error::of(e, "copying a handle"))?;
        Ok(Sender { stream, checked: self.checked, seal: self.seal.clone() })
    }
}

/// The half that receives: a header, then its payload, wherever the caller wants it.
#[derive(Debug)]
pub struct Receiver {
    stream: Stream,
    ahead: Box<[u8]>,
    at: usize,
    end: usize,
    /// Header whose payload has not been taken yet.
    pending: Option<Header>,
    /// What checks frames, and the number of the last one.
    seal: Option<Seal>,
    frame: u64,
}

impl Receiver {
    /// The next header. A payload that was not taken is skipped. If the deadline passes before the
    /// first byte, the connection is still good.
    pub fn header(&mut self, deadline: Instant) -> Result<Header> {
        self.header_while(None, deadline)
    }
    /// As [`Receiver::header`], while something is sent.
    pub fn header_while(&mut self, mut pump: Option<&mut Pump<'_>>, deadline: Instant) -> Result<Header> {
        const DOING: &str = "waiting for a message";
        if let Some(h) = self.pending.take() {
            self.skip(h.length as usize, deadline)?;
        }
        let (mut b, head) = ([0; HEADER_BYTES], self.head_len());
        while self.end - self.at < head {
            self.ahead.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            // From memory nothing is gained by reading ahead, and what follows can be read to its place.
            let end = if self.stream.is_shared() { HEADER_BYTES } else { AHEAD };
            let n = read(&mut self.stream, &mut self.ahead[self.end..end], pump.as_deref_mut(), deadline, DOING)?;
            self.end += n;
        }
        b.copy_from_slice(&self.ahead[self.at..self.at + HEADER_BYTES]);
        if let Some(seal) = &self.seal {
            self.frame = seal.number();
            let mut came = Tag::default();
            came.copy_from_slice(&self.ahead[self.at + HEADER_BYTES..self.at + head]);
            let checked = seal::check(&seal.header(self.frame, &b), &came);
            self.authentic(checked)?;
        }
        self.at += head;
        let h = Header::decode(&b)?;
        self.pending = (h.length > 0).then_some(h);
        Ok(h)
    }
    /// Bytes before a payload.
    fn head_len(&self) -> usize {
        if self.seal.is_some() { HEADER_BYTES + TAG_BYTES } else { HEADER_BYTES }
    }
    /// Ends the connection if something on it is not authentic.
    fn authentic(&self, checked: Result<()>) -> Result<()> {
        checked.inspect_err(|_| self.stream.shutdown())
    }
    /// Reads the tag after a payload and checks it.
    fn check_payload(&mut self, expected: &Tag, pump: Option<&mut Pump<'_>>, deadline: Instant) -> Result<()> {
        let mut came = Tag::default();
        self.fill(&mut came, pump, deadline)?;
        self.authentic(seal::check(expected, &came))
    }
    /// True if the next frame is here already, whole.
    pub fn has_frame(&self) -> bool {
        let here = &self.ahead[self.at..self.end];
        let mut head = [0; HEADER_BYTES];
        let n = if self.stream.is_shared() && here.is_empty() {
            self.stream.peek(&mut head)
        } else {
            here.iter().zip(&mut head).for_each(|(b, to)| *to = *b);
            here.len()
        };
        let tail = |h: &Header| if self.seal.is_some() && h.length > 0 { TAG_BYTES } else { 0 };
        let is_whole = |h: Header| n >= self.head_len() + h.length as usize + tail(&h);
        self.pending.is_none() && n >= HEADER_BYTES && Header::decode(&head).is_ok_and(is_whole)
    }
    /// Shows the payload of the last header, of `length` bytes, where it lies, piece by piece and in
    /// whole units. False, and nothing has happened, if it has to be copied: only what comes
    /// through memory can be shown.
    pub fn payload_shown(
        &mut self,
        length: usize,
        unit: usize,
        mut to: impl FnMut(&[u8]),
        deadline: Instant,
    ) -> Result<bool> {
        let is_it = |h: &Header| h.length as usize == length && h.flags & CHECKED == 0;
        let is_ahead = self.at < self.end;
        if !self.stream.is_shared() || is_ahead || !self.pending.as_ref().is_some_and(is_it) {
            return Ok(false);
        }
        self.pending = None;
        let mut left = length;
        while left > 0 {
            match self.stream.show(left, unit, &mut to, deadline) {
                Ok(0) => return Err(self.stream.ended()),
                Ok(n) => left -= n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::of(e, "receiving a payload")),
            }
        }
        Ok(true)
    }
    /// Reads the payload of the last header straight into `into`, which must have its length.
    pub fn payload_into(&mut self, into: &mut [u8], deadline: Instant) -> Result<()> {
        self.payload_into_while(into, None, deadline)
    }
    /// As [`Receiver::payload_into`], while something is sent.
    pub fn payload_into_while(
        &mut self,
        into: &mut [u8],
        mut pump: Option<&mut Pump<'_>>,
        deadline: Instant,
    ) -> Result<()> {
        let h = self.pending.take().unwrap_or_default();
        if h.length as usize != into.len() {
            let e = format!("a payload of {} bytes was expected, not of {}", into.len(), h.length);
            self.pending = (h.length > 0).then_some(h);
            return Err(Error::Refused(e));
        }
        self.fill(into, pump.as_deref_mut(), deadline)?;
        if let Some(seal) = self.seal.as_ref().filter(|_| h.length > 0) {
            let expected = seal.payload(self.frame, &[into]);
            self.check_payload(&expected, pump, deadline)?;
        }
        if h.flags & CHECKED != 0 && crc32c::crc32c(into) != h.payload_crc {
            return Err(Error::Refused("the checksum of a payload is wrong".to_string()));
        }
        Ok(())
    }
    /// The payload of the last header; longer than `max` is refused before memory is taken.
    pub fn payload(&mut self, max: usize, deadline: Instant) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.payload_to(&mut out, max, deadline)?;
        Ok(out)
    }
    /// As [`Receiver::payload`], in the place of what `out` holds, whose memory is used again.
    pub fn payload_to(&mut self, out: &mut Vec<u8>, max: usize, deadline: Instant) -> Result<()> {
        let length = self.pending.map_or(0, |h| h.length as usize);
        if length > max {
            return Err(Error::Refused(format!("a payload of at most {max} bytes was expected, not of {length}")));
        }
        out.resize(length, 0);
        self.payload_into(out, deadline)
    }
    fn fill(&mut self, into: &mut [u8], mut pump: Option<&mut Pump<'_>>, deadline: Instant) -> Result<()> {
        let ready = (self.end - self.at).min(into.len());
        into[..ready].copy_from_slice(&self.ahead[self.at..self.at + ready]);
        self.at += ready;
        let mut done = ready;
        while done < into.len() {
            let doing = "receiving a payload";
            done += read(&mut self.stream, &mut into[done..], pump.as_deref_mut(), deadline, doing)?;
        }
        Ok(())
    }
    fn skip(&mut self, mut n: usize, deadline: Instant) -> Result<()> {
        let mut waste = [0; 4096];
        let mut hash = self.seal.as_ref().map(|s| s.payload_of(self.frame));
        while n > 0 {
            let step = n.min(waste.len());
            self.fill(&mut waste[..step], None, deadline)?;
            if let Some(h) = &mut hash {
                h.update(&waste[..step]);
            }
            n -= step;
        }
        hash.map_or(Ok(()), |h| self.check_payload(&seal::tag(&h), None, deadline))
    }
}

fn read(
    stream: &mut Stream,
    into: &mut [u8],
    mut pump: Option<&mut Pump<'_>>,
    deadline: Instant,
    doing: &'static str,
) -> Result<usize> {
    loop {
        let read = match &mut pump {
            Some(pump) => pump.read(stream, into, deadline),
            None => stream.read(into, deadline),
        };
        match read {
            Ok(0) => return Err(stream.ended()),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(stream.error(e, doing)),
        }
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Where callers arrive.
pub struct Listener {
    socket: Socket,
    address: Address,
    secret: Option<Secret>,
}

impl Listener {
    /// Listens; port 0 takes a free one. An address that other machines reach needs a secret.
    pub fn bind(at: &Address, secret: Option<Secret>) -> Result<Listener> {
        if secret.is_none() && !at.is_local() {
            return Err(Error::Refused(format!(
                "{at} is reachable from other machines: a shared secret or certificates are required"
            )));
        }
        let failed = |e| Error::Io { what: format!("listening at {at}"), source: e };
        let (socket, address) = match at {
            Address::Tcp(a) => {
                let l = TcpListener::bind(a).map_err(failed)?;
                let bound = l.local_addr().map_err(failed)?;
                (Socket::Tcp(l), Address::Tcp(bound))
            }
            Address::Unix(p) => (Socket::Unix(UnixListener::bind(p).map_err(failed)?), at.clone()),
        };
        Ok(Listener { socket, address, secret })
    }
    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
    /// The next caller, who has proved nothing yet: hand it to a separate thread, so that one
    /// that says nothing does not keep the others waiting.
    pub fn accept(&self) -> Result<Pending> {
        loop {
            let stream: io::Result<Stream> = match &self.socket {
                Socket::Tcp(l) => l.accept().map(|(s, _)| s.into()),
                Socket::Unix(l) => l.accept().map(|(s, _)| s.into()),
            };
            match stream.map_err(|e| (passes(&e), e)) {
                // A caller that is gone again, or too many at once, is no reason to listen no more.
                Ok(stream) => match Connection::over(stream) {
                    Ok(connection) => return Ok(Pending { connection, secret: self.secret.clone() }),
                    Err(_) => continue,
                },
                Err((true, _)) => std::thread::sleep(Duration::from_millis(10)),
                Err((false, e)) => return Err(Error::of(e, "accepting")),
            }
        }
    }
}

/// Whether what keeps a listener from accepting will pass: everything but that it is no listener.
/// (The system also hands on what went wrong with a caller's network.)
fn passes(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let lasting = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    !lasting.iter().any(|p| e.raw_os_error() == Some(p.raw_os_error()))
}

/// A caller before the handshake.
pub struct Pending {
    connection: Connection,
    secret: Option<Secret>,
}

impl Pending {
    /// A handle to end it.
    pub(crate) fn handle(&self) -> Result<Sender> {
        self.connection.sender.try_clone()
    }
    /// Does the handshake.
    pub fn handshake(self, deadline: Instant) -> Result<Connection> {
        let Pending { connection: mut c, secret } = self;
        if let Some(tls) = c.tls(secret.as_ref()) {
            c = c.encrypted(tls.listener()?, deadline)?;
        }
        c.challenge(secret.as_ref(), deadline)?;
        Ok(c)
    }
}
