//! TLS 1.3 with certificates at both ends, over a socket that others read and write.
//!
//! Every process of a job has a certificate that the job's own authority has issued for one
//! [`NAME`]; both ends check the other's. Nobody is known by the name of its machine: processes
//! move, and all of them may do the same.
//!
//! One state encrypts and decrypts, behind a lock that is never held while a socket waits, so
//! that a thread that sends and one that receives do not stop each other.

use crate::{Error, Result};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// The name that every process's certificate must have among its alternative names.
pub const NAME: &str = "talweg";
/// Files of the folder, named as Kubernetes names those of its secrets.
const AUTHORITY: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// Bytes encrypted at once, and read from the socket at once.
const CHUNK: usize = 64 << 10;

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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
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
        let c = ClientConnection::new(self.client.clone(), name()).map_err(|e| Error::Refused(words(&e)))?;
        Ok(Session::new(c.into()))
    }
    pub fn listener(&self) -> Result<Session> {
        let c = ServerConnection::new(self.server.clone()).map_err(|e| Error::Refused(words(&e)))?;
        Ok(Session::new(c.into()))
    }
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

/// What was wrong, for whoever has to repair it.
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

/// Bytes from the socket that are not decrypted yet.
struct Incoming {
    bytes: Box<[u8]>,
    at: usize,
    end: usize,
}

/// One connection's state.
pub(crate) struct Session {
    state: Mutex<Connection>,
    incoming: Mutex<Incoming>,
    /// Encrypted bytes on their way into the socket.
    outgoing: Mutex<Vec<u8>>,
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
    fn new(mut c: Connection) -> Session {
        c.set_buffer_limit(Some(2 * CHUNK));
        let incoming = Incoming { bytes: vec![0; CHUNK].into(), at: 0, end: 0 };
        Session { state: Mutex::new(c), incoming: Mutex::new(incoming), outgoing: Mutex::new(Vec::new()) }
    }
    /// Reads something decrypted; `pull` reads from the socket.
    pub fn read(&self, into: &mut [u8], mut pull: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut from = lock(&self.incoming);
        loop {
            {
                let mut c = lock(&self.state);
                match c.reader().read(into) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
                if from.at < from.end {
                    self.take(&mut c, &mut from)?;
                    continue;
                }
            }
            let n = pull(&mut from.bytes)?;
            if n == 0 {
                return Ok(0);
            }
            (from.at, from.end) = (0, n);
        }
    }
    /// Decrypts some of what has come.
    fn take(&self, c: &mut Connection, from: &mut Incoming) -> io::Result<()> {
        let mut rest = &from.bytes[from.at..from.end];
        let n = c.read_tls(&mut rest)?;
        from.at += n;
        c.process_new_packets().map(|_| ()).map_err(|e| refused(&e))
    }
    /// Encrypts and writes something; `push` writes to the socket.
    pub fn write(&self, slices: &[IoSlice<'_>], mut push: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut out = lock(&self.outgoing);
        let n = {
            let mut c = lock(&self.state);
            let n = c.writer().write_vectored(slices)?;
            drain(&mut c, &mut out)?;
            n
        };
        flush(&mut out, &mut push)?;
        Ok(n)
    }
    /// The TLS handshake. A refusal is said to the other end as well.
    pub fn handshake(
        &self,
        mut pull: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut push: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let (mut from, mut out) = (lock(&self.incoming), lock(&self.outgoing));
        let mut c = lock(&self.state);
        loop {
            drain(&mut c, &mut out)?;
            flush(&mut out, &mut push)?;
            if !c.is_handshaking() {
                return Ok(());
            }
            if from.at == from.end {
                let n = pull(&mut from.bytes)?;
                if n == 0 {
                    let e = "it ended the TLS handshake: perhaps it has no certificates";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, e));
                }
                (from.at, from.end) = (0, n);
            }
            if let Err(e) = self.take(&mut c, &mut from) {
                // What was wrong with its certificate should be known at the other end too.
                drain(&mut c, &mut out)?;
                let _ = flush(&mut out, &mut push);
                return Err(e);
            }
        }
    }
}

fn drain(c: &mut Connection, out: &mut Vec<u8>) -> io::Result<()> {
    while c.wants_write() {
        c.write_tls(out)?;
    }
    Ok(())
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
