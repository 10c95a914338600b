//! TLS 1.3 with certificates at both ends, over a socket that others read and write.
//!
//! Every process of a job has a certificate that the job's own authority has issued for one
//! [`NAME`]; both ends check the other's. No process is identified by the name of its machine: processes
//! move, and all of them may do the same.
//!
//! One state encrypts and decrypts, behind a lock that is never held while a socket waits, so
//! that a thread that sends and one that receives do not stop each other.

use crate::{Error, Result};
use rustls::client::UnbufferedClientConnection;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};
use std::fmt;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// The name that every process's certificate must have among its alternative names.
pub const NAME: &str = "talweg";
/// Files of the folder, named as Kubernetes names those of its secrets.
const AUTHORITY: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// Bytes encrypted at once, and read from the socket at once: several records of 16 KiB.
const CHUNK: usize = 128 << 10;
/// Bytes of a record at most, and how many more it has when it is encrypted.
const RECORD: usize = 16 << 10;
const RECORD_EXTRA: usize = 64;

/// The authority, and this process's certificate and key.
#[derive(Clone)]
pub(crate) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}
impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.client, &other.client)
    }
}
impl Eq for Tls {}

impl Tls {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder.
    pub fn load(folder: &Path) -> Result<Tls> {
        let bad = |file: &str, e: &dyn fmt::Display| Error::Refused(format!("{}: {e}", folder.join(file).display()));
        let certificates = |file: &str| {
            let all = CertificateDer::pem_file_iter(folder.join(file)).map_err(|e| bad(file, &e))?;
            let all = all.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| bad(file, &e))?;
            if all.is_empty() { Err(bad(file, &"there is no certificate in it")) } else { Ok(all) }
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(AUTHORITY)? {
            roots.add(authority).map_err(|e| bad(AUTHORITY, &e))?;
        }
        let (roots, chain) = (Arc::new(roots), certificates(CERTIFICATE)?);
        let key = PrivateKeyDer::from_pem_file(folder.join(KEY)).map_err(|e| bad(KEY, &e))?;
        let provider = Arc::new(provider());
        let versions = [&rustls::version::TLS13];
        let inner = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let inner = inner.build().map_err(|e| bad(AUTHORITY, &e))?;
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .and_then(|c| c.with_root_certificates(roots).with_client_auth_cert(chain.clone(), key.clone_key()));
        let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).and_then(|c| {
            c.with_client_cert_verifier(Arc::new(Named { inner, name: name() })).with_single_cert(chain, key)
        });
        let mut client = client.map_err(|e| bad(CERTIFICATE, &e))?;
        let mut server = server.map_err(|e| bad(CERTIFICATE, &e))?;
        // Links are few and long: nothing is resumed, and nothing may lie in the socket unread
        // when the bytes go through memory.
        client.resumption = rustls::client::Resumption::disabled();
        server.send_tls13_tickets = 0;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
    }
    pub fn caller(&self) -> Result<Session> {
        let c = UnbufferedClientConnection::new(self.client.clone(), name()).map_err(|e| Error::Refused(words(&e)))?;
        Ok(Session::new(State::Client(Box::new(c))))
    }
    pub fn listener(&self) -> Result<Session> {
        let c = UnbufferedServerConnection::new(self.server.clone()).map_err(|e| Error::Refused(words(&e)))?;
        Ok(Session::new(State::Server(Box::new(c))))
    }
}

/// The ciphers, the quickest first.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|s| *s != TLS13_AES_128_GCM_SHA256);
    provider
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a name")
}

/// Checks callers as the library does, and their name too.
#[derive(Debug)]
struct Named {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }
    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(end, between, now)?;
        verify_server_name(&ParsedCertificate::try_from(end)?, &self.name)?;
        Ok(verified)
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// What was wrong, and how to repair it.
fn words(e: &rustls::Error) -> String {
    use CertificateError as C;
    use rustls::Error as E;
    match e {
        E::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => "its certificate has expired".to_string(),
        E::InvalidCertificate(C::NotValidYet | C::NotValidYetContext { .. }) => {
            "its certificate is not valid yet".to_string()
        }
        // Two authorities may have one name; then it is the signature that tells them apart.
        E::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            format!("its certificate was not issued by the authority of our {AUTHORITY}")
        }
        E::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            format!("its certificate is not for the name {NAME:?}")
        }
        E::NoCertificatesPresented => "it has shown no certificate".to_string(),
        E::AlertReceived(AlertDescription::CertificateExpired) => {
            "it says that our certificate has expired, or is not valid yet".to_string()
        }
        E::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "it does not know the authority that issued our certificate".to_string()
        }
        E::AlertReceived(AlertDescription::CertificateRequired) => "it wants a certificate of ours".to_string(),
        E::AlertReceived(alert) => format!("it has refused our certificate ({alert:?})"),
        E::InvalidMessage(_) => "it does not speak TLS".to_string(),
        other => other.to_string(),
    }
}

/// The state of one end.
enum State {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// What came of one turn of the state.
enum Turn {
    /// So many bytes were decrypted to where they belong.
    Read(usize),
    /// Something was written down to be sent, or something had to be done first.
    More,
    /// What was to be encrypted is.
    Encrypted,
    /// Nothing can be done before more bytes come.
    Waiting,
    /// The other end has said that it is done.
    Closed,
}
type Turned = std::result::Result<Turn, rustls::Error>;

/// Where the results of a turn go: decrypted bytes first to `into`, then to `rest`; encrypted ones,
/// of `plain` if there is something to encrypt, to `out`.
struct Places<'a> {
    into: &'a mut [u8],
    rest: &'a mut Vec<u8>,
    out: &'a mut Vec<u8>,
    plain: Option<&'a [u8]>,
}

/// One turn; returns how many of the bytes that came are used up.
fn turn<D>(status: UnbufferedStatus<'_, '_, D>, to: Places<'_>) -> (usize, Turned) {
    let mut used = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(e) => return (used, Err(e)),
    };
    let turned = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            let mut at = 0;
            while let Some(record) = traffic.next_record() {
                let record = match record {
                    Ok(record) => record,
                    Err(e) => return (used, Err(e)),
                };
                used += record.discard;
                let (now, later) = record.payload.split_at(record.payload.len().min(to.into.len() - at));
                to.into[at..at + now.len()].copy_from_slice(now);
                at += now.len();
                to.rest.extend_from_slice(later);
            }
            Ok(if at > 0 { Turn::Read(at) } else { Turn::More })
        }
        ConnectionState::EncodeTlsData(mut data) => encode(to.out, |b| data.encode(b)).map(|()| Turn::More),
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Turn::More)
        }
        ConnectionState::WriteTraffic(traffic) => match to.plain {
            Some(plain) => write_records(traffic, plain, to.out).map(|()| Turn::Encrypted),
            None => Ok(Turn::Waiting),
        },
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Turn::Closed),
        _ => Ok(Turn::Waiting),
    };
    (used, turned)
}

/// Appends a message of the handshake, which says how long it is when there is no room.
fn encode(
    out: &mut Vec<u8>,
    mut to: impl FnMut(&mut [u8]) -> std::result::Result<usize, EncodeError>,
) -> std::result::Result<(), rustls::Error> {
    let at = out.len();
    loop {
        match to(&mut out[at..]) {
            Ok(n) => {
                out.truncate(at + n);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(e)) => out.resize(at + e.required_size, 0),
            Err(e) => return Err(rustls::Error::General(e.to_string())),
        }
    }
}

fn write_records<D>(
    mut traffic: WriteTraffic<'_, D>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> std::result::Result<(), rustls::Error> {
    let at = out.len();
    out.resize(at + plain.len() + (1 + plain.len() / RECORD) * RECORD_EXTRA, 0);
    loop {
        match traffic.encrypt(plain, &mut out[at..]) {
            Ok(n) => {
                out.truncate(at + n);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(e)) => out.resize(at + e.required_size, 0),
            Err(e) => return Err(rustls::Error::General(e.to_string())),
        }
    }
}

/// What both directions share: the state, bytes that are not decrypted yet, decrypted ones that
/// not taken yet, and what has to be sent because of them.
struct Inner {
    state: State,
    bytes: Vec<u8>,
    at: usize,
    plain: Vec<u8>,
    taken: usize,
    answers: Vec<u8>,
    /// What went wrong: the library must not be asked again after that.
    failed: Option<rustls::Error>,
}

impl Inner {
    /// One turn; what is encrypted goes to `out`, or without it to the answers.
    fn turn(&mut self, into: &mut [u8], encrypt: Option<(&[u8], &mut Vec<u8>)>) -> Turned {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let turned = self.turn_once(into, encrypt);
        self.failed = turned.as_ref().err().cloned();
        turned
    }
    fn turn_once(&mut self, into: &mut [u8], encrypt: Option<(&[u8], &mut Vec<u8>)>) -> Turned {
        let (plain, out) = match encrypt {
            Some((plain, out)) => (Some(plain), out),
            None => (None, &mut self.answers),
        };
        let to = Places { into, rest: &mut self.plain, out, plain };
        let bytes = &mut self.bytes[self.at..];
        let (used, turned) = match &mut self.state {
            State::Client(c) => turn(c.process_tls_records(bytes), to),
            State::Server(c) => turn(c.process_tls_records(bytes), to),
        };
        self.at += used;
        turned
    }
    fn is_handshaking(&self) -> bool {
        match &self.state {
            State::Client(c) => c.is_handshaking(),
            State::Server(c) => c.is_handshaking(),
        }
    }
    /// Decrypts what has come; `None` if that is nothing yet, 0 if nothing will come.
    fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let left = &self.plain[self.taken..];
        let mut done = into.len().min(left.len());
        into[..done].copy_from_slice(&left[..done]);
        self.taken += done;
        if self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
        }
        while done < into.len() && self.at < self.bytes.len() {
            match self.turn(&mut into[done..], None).map_err(|e| refused(&e))? {
                Turn::Read(n) => done += n,
                Turn::More => {}
                Turn::Closed => return Ok(Some(done)),
                Turn::Waiting | Turn::Encrypted => break,
            }
        }
        Ok(if done > 0 { Some(done) } else { None })
    }
    /// Takes bytes from the socket.
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }
    /// Encrypts to the end of `out`.
    fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            match self.turn(&mut [], Some((plain, out))).map_err(|e| refused(&e))? {
                Turn::Encrypted => return Ok(()),
                Turn::More | Turn::Read(_) => {}
                Turn::Waiting | Turn::Closed => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

/// Bytes on their way into the socket.
#[derive(Default)]
struct Outgoing {
    plain: Vec<u8>,
    encrypted: Vec<u8>,
    /// How many of the encrypted ones the socket has.
    sent: usize,
}

impl Outgoing {
    /// Encrypts something of what is to be sent; returns how much.
    fn encrypt(&mut self, slices: &[IoSlice<'_>], inner: &mut Inner) -> io::Result<usize> {
        // Short slices share a record; a long one is encrypted from where it is.
        self.plain.clear();
        let mut long: &[u8] = &[];
        for s in slices {
            if self.plain.len() + s.len() > RECORD {
                long = s;
                break;
            }
            self.plain.extend_from_slice(s);
        }
        let first = if self.plain.is_empty() || long.is_empty() { 0 } else { RECORD - self.plain.len() };
        self.plain.extend_from_slice(&long[..first]);
        let long = &long[first..long.len().min(CHUNK)];
        self.encrypted.append(&mut inner.answers);
        for part in [&self.plain[..], long].into_iter().filter(|p| !p.is_empty()) {
            inner.encrypt(part, &mut self.encrypted)?;
        }
        Ok(self.plain.len() + long.len())
    }
    /// Writes everything; `WouldBlock` if there is no room for all of it.
    fn flush(&mut self, mut push: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while self.sent < self.encrypted.len() {
            match push(&self.encrypted[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.encrypted.clear();
        self.sent = 0;
        Ok(())
    }
}

/// One connection.
pub(crate) struct Session {
    inner: Mutex<Inner>,
    /// What one read of the socket brings.
    scratch: Mutex<Box<[u8]>>,
    outgoing: Mutex<Outgoing>,
}
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(…)")
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
fn refused(e: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {}", words(e)))
}

impl Session {
    fn new(state: State) -> Session {
        let (bytes, plain, answers) = (Vec::with_capacity(2 * CHUNK), Vec::new(), Vec::new());
        let inner = Inner { state, bytes, at: 0, plain, taken: 0, answers, failed: None };
        let scratch = Mutex::new(vec![0; CHUNK].into());
        Session { inner: Mutex::new(inner), scratch, outgoing: Mutex::default() }
    }
    /// Reads something decrypted; `pull` reads from the socket.
    pub fn read(&self, into: &mut [u8], mut pull: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut scratch = lock(&self.scratch);
        loop {
            if let Some(n) = lock(&self.inner).read(into)? {
                return Ok(n);
            }
            let n = pull(&mut scratch)?;
            if n == 0 {
                return Ok(0);
            }
            lock(&self.inner).append(&scratch[..n]);
        }
    }
    /// Encrypts and writes something; `push` writes to the socket and waits for room.
    pub fn write(&self, slices: &[IoSlice<'_>], mut push: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut out = lock(&self.outgoing);
        out.flush(&mut push)?;
        let n = out.encrypt(slices, &mut lock(&self.inner))?;
        out.flush(&mut push)?;
        Ok(n)
    }
    /// As [`Session::write`] where `push` does not wait: what it takes no more of is written with
    /// what follows, or by [`Session::flush`]. `WouldBlock` if there is something like that already.
    pub fn write_now(
        &self,
        slices: &[IoSlice<'_>],
        mut push: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut out = lock(&self.outgoing);
        out.flush(&mut push)?;
        let n = out.encrypt(slices, &mut lock(&self.inner))?;
        match out.flush(&mut push) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(n),
        }
    }
    /// Writes what is encrypted.
    pub fn flush(&self, push: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        lock(&self.outgoing).flush(push)
    }
    /// True if something is encrypted and not written.
    pub fn owes(&self) -> bool {
        let out = lock(&self.outgoing);
        out.sent < out.encrypted.len()
    }
    /// The TLS handshake. A refusal is said to the other end as well.
    pub fn handshake(
        &self,
        mut pull: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut push: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let (mut scratch, mut inner) = (lock(&self.scratch), lock(&self.inner));
        loop {
            match inner.turn(&mut [], None) {
                Ok(Turn::Waiting) => {}
                Ok(_) => continue,
                Err(e) => {
                    // What was wrong with its certificate should be known at the other end too: that
                    // is the first thing the library has to say now.
                    let _ = inner.turn_once(&mut [], None);
                    let _ = flush(&mut inner.answers, &mut push);
                    return Err(refused(&e));
                }
            }
            flush(&mut inner.answers, &mut push)?;
            if !inner.is_handshaking() {
                return Ok(());
            }
            let n = pull(&mut scratch)?;
            if n == 0 {
                let e = "it ended the TLS handshake: perhaps it has no certificates";
                return Err(io::Error::new(io::ErrorKind::InvalidData, e));
            }
            inner.append(&scratch[..n]);
        }
    }
}

/// Writes everything; after an error the connection is useless.
fn flush(out: &mut Vec<u8>, push: &mut impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    let mut at = 0;
    while at < out.len() {
        match push(&out[at..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    out.clear();
    Ok(())
}
