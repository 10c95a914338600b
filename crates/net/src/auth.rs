//! The handshake: both ends prove that they know the same secret, and neither says it.
//!
//! The caller sends a nonce and who it is; the listener answers with its own nonce and a
//! proof over both; the caller checks it and sends its proof. A recorded handshake is worthless
//! because the other end's nonce is new; a proof cannot be sent back because it names its side.
//! Everything that the ends say to each other is covered by a proof. The secret also makes the keys
//! that authenticate the frames which follow; it does not encrypt them. Certificates do: with them
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
    /// True if there is a text: frames can be authenticated without TLS.
    pub(crate) fn has_text(&self) -> bool {
        !self.text.is_empty()
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
    /// The listener's last word.
    Welcome,
}

/// Fresh random bytes.
pub(crate) fn nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut n = [0; NONCE_BYTES];
    let failed = |e: getrandom::Error| Error::Io { what: "random bytes".into(), source: e.into() };
    getrandom::fill(&mut n).map_err(failed)?;
    Ok(n)
}

/// What both ends have said in a handshake.
pub(crate) struct Transcript<'a> {
    pub secret: Option<&'a Secret>,
    /// Nonces.
    pub caller: &'a [u8],
    pub listener: &'a [u8],
    /// Who calls.
    pub hello: &'a [u8],
}

impl Transcript<'_> {
    fn mac(&self, label: &[u8; 15], more: &[u8]) -> Hmac<Sha256> {
        let key = self.secret.map_or(&[][..], |s| &s.text);
        let mut m = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any length of key will do");
        m.update(label);
        // Labels and nonces have one length and the greeting says its own, so no two inputs read the same.
        m.update(self.caller);
        m.update(self.listener);
        m.update(&(self.hello.len() as u32).to_le_bytes());
        m.update(self.hello);
        m.update(more);
        m
    }
    fn proof(&self, side: Side, more: &[u8]) -> Hmac<Sha256> {
        let label = match side {
            Side::Caller => b"talweg caller 2",
            Side::Listener => b"talweg listen 2",
            Side::Welcome => b"talweg enters 2",
        };
        self.mac(label, more)
    }
    /// Proof that this side knows the secret and says `more`; without a secret, that it took part in
    /// this handshake.
    pub fn prove(&self, side: Side, more: &[u8]) -> [u8; PROOF_BYTES] {
        self.proof(side, more).finalize().into_bytes().into()
    }
    /// Checks a proof in constant time.
    pub fn check(&self, side: Side, more: &[u8], proof: &[u8]) -> Result<()> {
        let ok = self.proof(side, more).verify_slice(proof);
        ok.map_err(|_| Error::Refused("the other end does not know the shared secret".to_string()))
    }
    /// Keys of the frames that the caller sends, and of those that the listener sends.
    pub fn keys(&self) -> [[u8; 32]; 2] {
        [b"talweg frames c", b"talweg frames l"].map(|label| self.mac(label, &[]).finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_link_one_direction_and_one_secret() {
        let (a, b) =
            (Secret::new("correct horse battery staple").unwrap(), Secret::new("another secret of 16").unwrap());
        let keys = |secret: &Secret, caller: u8, listener: u8, hello: &[u8]| {
            let (caller, listener) = ([caller; NONCE_BYTES], [listener; NONCE_BYTES]);
            Transcript { secret: Some(secret), caller: &caller, listener: &listener, hello }.keys()
        };
        let all = [
            keys(&a, 1, 2, b"x"),
            keys(&a, 2, 1, b"x"),
            keys(&a, 1, 3, b"x"),
            keys(&a, 1, 2, b"y"),
            keys(&b, 1, 2, b"x"),
        ];
        let mut distinct: Vec<[u8; 32]> = all.into_iter().flatten().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 10);
        assert_eq!(all[0], keys(&a, 1, 2, b"x"));
    }
}
