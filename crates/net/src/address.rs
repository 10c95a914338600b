//! Where a process listens.

use crate::{Error, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a process listens: `host:port`, `tcp://host:port` or `unix:/path`.
///
/// ```
/// # use talweg_net::Address;
/// assert_eq!("tcp://127.0.0.1:80".parse::<Address>().unwrap().to_string(), "127.0.0.1:80");
/// assert_eq!("unix:/run/a".parse::<Address>().unwrap().to_string(), "unix:/run/a");
/// assert!("nowhere".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// True if only processes of this machine reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(a) => is_loopback(a.ip()),
            Address::Unix(_) => true,
        }
    }
}

pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl FromStr for Address {
    type Err = Error;
    fn from_str(s: &str) -> Result<Address> {
        if let Some(path) = s.strip_prefix("unix:") {
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let host = s.strip_prefix("tcp://").unwrap_or(s);
        let mut found = host.to_socket_addrs().map_err(|e| Error::Io { what: format!("address {s:?}"), source: e })?;
        found.next().map(Address::Tcp).ok_or_else(|| Error::Refused(format!("{s:?} has no address")))
    }
}
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(a) => write!(f, "{a}"),
            Address::Unix(p) => write!(f, "unix:{}", p.display()),
        }
    }
}
