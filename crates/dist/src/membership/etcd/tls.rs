//! TLS 1.3 to a cluster, with a client certificate if it asks for one.

use crate::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// The cluster's authority, and this process's certificate.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Reads the files.
    pub fn load(ca: &str, own: Option<(&str, &str)>) -> Result<Tls> {
        let bad = |file: &str, e: &dyn std::fmt::Display| Error::value(format!("{file}: {e}"));
        let certificates = |file: &str| {
            let all = CertificateDer::pem_file_iter(Path::new(file)).map_err(|e| bad(file, &e))?;
            all.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| bad(file, &e))
        };
        let mut roots = RootCertStore::empty();
        for c in certificates(ca)? {
            roots.add(c).map_err(|e| bad(ca, &e))?;
        }
        if roots.is_empty() {
            return Err(bad(ca, &"there is no certificate in it"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.map_err(|e| bad(ca, &e))?.with_root_certificates(roots);
        Ok(Tls(Arc::new(match own {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let private = PrivateKeyDer::from_pem_file(Path::new(key)).map_err(|e| bad(key, &e))?;
                config.with_client_auth_cert(certificates(cert)?, private).map_err(|e| bad(cert, &e))?
            }
        })))
    }

    /// A session with the member of this name; the handshake comes with the first bytes.
    pub fn session(&self, name: &str, socket: TcpStream) -> io::Result<Session> {
        let name = ServerName::try_from(name.to_string()).map_err(io::Error::other)?;
        let member = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        Ok(Session(StreamOwned::new(member, socket)))
    }
}

pub(crate) struct Session(StreamOwned<ClientConnection, TcpStream>);

impl Session {
    pub fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
}
impl Read for Session {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}
impl Write for Session {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
