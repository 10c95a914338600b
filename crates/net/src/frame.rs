//! The frame: a header of 64 bytes, little-endian, then the payload.
//!
//! | bytes | field |
//! |---|---|
//! | 0–3 | magic `TLWG` |
//! | 4 | version |
//! | 5 | kind of message |
//! | 6–7 | flags; the lowest says that the payload has a checksum |
//! | 8–15 | epoch of the membership the sender lives in |
//! | 16–23 | request: answers repeat it, repeated requests are recognized by it |
//! | 24–31 | clock: the sender's step |
//! | 32–35 | sender |
//! | 36–39 | table |
//! | 40–47 | key: first of the range |
//! | 48–51 | count: keys in the range |
//! | 52–55 | length of the payload |
//! | 56–59 | CRC-32C of the payload, or 0 |
//! | 60–63 | CRC-32C of the 60 bytes before |

use crate::{Error, Result};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Version of the protocol; another is refused.
pub const VERSION: u8 = 1;
/// Longest payload of one frame.
pub const PAYLOAD_MAX: usize = 1 << 30;

/// Kinds from here on belong to the handshake; applications use smaller ones.
pub const HANDSHAKE_KINDS: u8 = 0xF0;

const MAGIC: [u8; 4] = *b"TLWG";
/// The payload has a checksum.
pub(crate) const CHECKED: u16 = 1;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Kind of message.
    pub kind: u8,
    /// Flags of the application; the lowest bit belongs to the link.
    pub flags: u16,
    /// Epoch of the membership the sender lives in.
    pub epoch: u64,
    /// Number of the request.
    pub request: u64,
    /// The sender's step.
    pub clock: u64,
    /// Who sends.
    pub sender: u32,
    /// Which table.
    pub table: u32,
    /// First key.
    pub key: u64,
    /// How many keys.
    pub count: u32,
    /// Bytes of payload; set by the link when it sends.
    pub length: u32,
    /// Checksum of the payload; set by the link when it sends.
    pub payload_crc: u32,
}

impl Header {
    /// A header of this kind, everything else zero.
    pub fn new(kind: u8) -> Header {
        Header { kind, ..Header::default() }
    }
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(self.length as usize <= PAYLOAD_MAX || cfg!(test), "the link refuses longer payloads before");
        let mut b = [0; HEADER_BYTES];
        b[0..4].copy_from_slice(&MAGIC);
        b[4] = VERSION;
        b[5] = self.kind;
        b[6..8].copy_from_slice(&self.flags.to_le_bytes());
        b[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        b[16..24].copy_from_slice(&self.request.to_le_bytes());
        b[24..32].copy_from_slice(&self.clock.to_le_bytes());
        b[32..36].copy_from_slice(&self.sender.to_le_bytes());
        b[36..40].copy_from_slice(&self.table.to_le_bytes());
        b[40..48].copy_from_slice(&self.key.to_le_bytes());
        b[48..52].copy_from_slice(&self.count.to_le_bytes());
        b[52..56].copy_from_slice(&self.length.to_le_bytes());
        b[56..60].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&b[..60]);
        b[60..64].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// Reads a header; refuses another magic, version or checksum, and a payload over the limit.
    pub fn decode(b: &[u8; HEADER_BYTES]) -> Result<Header> {
        if b[0..4] != MAGIC {
            return Err(Error::Refused(format!("a frame starts with {MAGIC:02x?}, not {:02x?}", &b[0..4])));
        }
        if b[4] != VERSION {
            return Err(Error::Refused(format!("protocol version {VERSION} is spoken here, not {}", b[4])));
        }
        let u16_at = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        if u32_at(60) != crc32c::crc32c(&b[..60]) {
            return Err(Error::Refused("the checksum of a header is wrong".to_string()));
        }
        let h = Header {
            kind: b[5],
            flags: u16_at(6),
            epoch: u64_at(8),
            request: u64_at(16),
            clock: u64_at(24),
            sender: u32_at(32),
            table: u32_at(36),
            key: u64_at(40),
            count: u32_at(48),
            length: u32_at(52),
            payload_crc: u32_at(56),
        };
        if h.length as usize > PAYLOAD_MAX {
            return Err(Error::Refused(format!("a payload has at most {PAYLOAD_MAX} bytes, not {}", h.length)));
        }
        Ok(h)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives() {
        let h = Header {
            kind: 7,
            flags: 0x8002,
            epoch: u64::MAX - 1,
            request: 1 << 40,
            clock: 3,
            sender: 4,
            table: 5,
            key: 1 << 50,
            count: 6,
            length: 9,
            payload_crc: 11,
        };
        assert_eq!(Header::decode(&h.encode()).unwrap(), h);
    }

    #[test]
    fn a_changed_bit_is_refused() {
        let good = Header { kind: 1, length: 4, ..Header::default() }.encode();
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn too_long_a_payload_is_refused() {
        let bad = Header { length: PAYLOAD_MAX as u32 + 1, ..Header::default() }.encode();
        assert!(Header::decode(&bad).unwrap_err().to_string().contains("at most"));
    }
}
