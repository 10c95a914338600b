//! The handshake: both ends prove that they know the same secret, and neither says it.
//!
//! The caller sends a nonce and who it is; the listener answers with a nonce of its own and a
//! proof over both; the caller checks it and sends its proof. A recorded handshake is worthless
//! because the other end's nonce is new; a proof cannot be sent back because it names its side.
//! The secret authenticates the ends; it does not encrypt what follows. Certificates do: with them
//! the whole handshake goes through TLS.

use crate::tls::Tls;
use crate::{Error, Result};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::path::Path;

pub(crate) const NONCE_BYTES: usize = 32;
pub(crate) const PROOF_BYTES: usize = 32;
/// Longest text in a greeting.
const TEXT_MAX: usize = 256;

/// What a process proves itself with: a text that both ends know, a certificate with its key, or
/// both. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: Vec<u8>,
    pub(crate) tls: Option<Tls>,
}

impl Secret {
    /// From text; shorter than 16 bytes is refused, as it could be guessed.
    pub fn new(text: &str) -> Result<Secret> {
        if text.len() < 16 {
            return Err(Error::Refused(format!("a secret needs at least 16 bytes, not {}", text.len())));
        }
        Ok(Secret { text: text.as_bytes().to_vec(), tls: None })
    }
    /// From a folder with `ca.crt`, `tls.crt` and `tls.key`: TCP links speak TLS, and both ends
    /// show a certificate of that authority for the name [`crate::NAME`].
    pub fn certificates(folder: &Path) -> Result<Secret> {
        Ok(Secret { text: Vec::new(), tls: Some(Tls::load(folder)?) })
    }
    /// This text, and certificates as well.
    pub fn with_certificates(self, folder: &Path) -> Result<Secret> {
        Ok(Secret { tls: Some(Tls::load(folder)?), ..self })
    }
    /// A random one, as text.
    pub fn generate() -> Result<String> {
        Ok(nonce()?.iter().map(|b| format!("{b:02x}")).collect())
    }
}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who calls: shown to the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Number of the caller within its role.
    pub id: u32,
    /// What the caller is, such as `worker`.
    pub role: String,
}

impl Hello {
    /// A caller with that role and number.
    pub fn new(role: &str, id: u32) -> Hello {
        Hello { id, role: role.to_string() }
    }
    /// As it is said.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.id.to_le_bytes().to_vec();
        out.extend_from_slice(self.role.as_bytes());
        out
    }
    /// From what was said; what is no greeting is refused.
    pub fn decode(b: &[u8]) -> Result<Hello> {
        let bad = || Error::Refused("a greeting is malformed".to_string());
        if b.len() < 4 || b.len() > TEXT_MAX {
            return Err(bad());
        }
        let role = std::str::from_utf8(&b[4..]).map_err(|_| bad())?.to_string();
        Ok(Hello { id: u32::from_le_bytes([b[0], b[1], b[2], b[3]]), role })
    }
}

/// Which end a proof comes from.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Caller,
    Listener,
}

/// Random bytes nobody has seen before.
pub(crate) fn nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut n = [0; NONCE_BYTES];
    let failed = |e: getrandom::Error| Error::Io { what: "random bytes".into(), source: e.into() };
    getrandom::fill(&mut n).map_err(failed)?;
    Ok(n)
}

fn mac(secret: Option<&Secret>, side: Side, caller: &[u8], listener: &[u8], hello: &[u8]) -> Hmac<Sha256> {
    let key = secret.map_or(&[][..], |s| &s.text);
    let mut m = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any length of key will do");
    m.update(match side {
        Side::Caller => b"talweg caller 1",
        Side::Listener => b"talweg listen 1",
    });
    // Nonces have one length and the greeting comes last, so no two inputs read the same.
    m.update(caller);
    m.update(listener);
    m.update(hello);
    m
}

/// Proof that this side knows the secret; without a secret, that it took part in this handshake.
pub(crate) fn prove(
    secret: Option<&Secret>,
    side: Side,
    caller: &[u8],
    listener: &[u8],
    hello: &[u8],
) -> [u8; PROOF_BYTES] {
    mac(secret, side, caller, listener, hello).finalize().into_bytes().into()
}

/// Checks a proof in constant time.
pub(crate) fn check(
    secret: Option<&Secret>,
    side: Side,
    caller: &[u8],
    listener: &[u8],
    hello: &[u8],
    proof: &[u8],
) -> Result<()> {
    let ok = mac(secret, side, caller, listener, hello).verify_slice(proof);
    ok.map_err(|_| Error::Refused("the other end does not know the shared secret".to_string()))
}
