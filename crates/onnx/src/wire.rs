//! Protobuf's wire format: a reader that never trusts a length, and a writer.

use ir::{Error, Result};

/// One field as it is encoded.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    /// A number of 7 bits a byte.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, message or packed list.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

fn bad(what: &str) -> Error {
    Error::format(format!("not an ONNX file: {what}"))
}

/// Takes a number of 7 bits a byte off the front.
fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut out = 0u64;
    for i in 0..10 {
        let (&b, rest) = bytes.split_first().ok_or_else(|| bad("it ends inside a number"))?;
        *bytes = rest;
        if i == 9 && b > 1 {
            return Err(bad("a number has more than 64 bits"));
        }
        out |= u64::from(b & 127) << (7 * i);
        if b < 128 {
            return Ok(out);
        }
    }
    Err(bad("a number has more than 10 bytes"))
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(n).ok_or_else(|| bad("a field is longer than the file"))?;
    *bytes = rest;
    Ok(head)
}

/// Shows every field of a message with its number.
pub fn fields<'a>(mut bytes: &'a [u8], mut see: impl FnMut(u32, Field<'a>) -> Result<()>) -> Result<()> {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).ok().filter(|&n| n > 0).ok_or_else(|| bad("a field has no number"))?;
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut bytes)?),
            1 => Field::Fixed64(u64::from_le_bytes(array(take(&mut bytes, 8)?))),
            2 => {
                let n = usize::try_from(varint(&mut bytes)?).map_err(|_| bad("a field is longer than the file"))?;
                Field::Bytes(take(&mut bytes, n)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(array(take(&mut bytes, 4)?))),
            _ => return Err(bad("a field has an unknown encoding")),
        };
        see(number, field)?;
    }
    Ok(())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

impl<'a> Field<'a> {
    /// As an integer.
    pub fn int(self) -> Result<i64> {
        match self {
            Field::Varint(v) => Ok(v as i64),
            _ => Err(bad("an integer is encoded as something else")),
        }
    }
    /// As a float.
    pub fn float(self) -> Result<f32> {
        match self {
            Field::Fixed32(v) => Ok(f32::from_bits(v)),
            _ => Err(bad("a float is encoded as something else")),
        }
    }
    /// As bytes: of a string or message.
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Field::Bytes(b) => Ok(b),
            _ => Err(bad("a message is encoded as a number")),
        }
    }
    /// As text.
    pub fn text(self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| bad("a name is not UTF-8"))
    }
    /// Appends one integer, or a packed list of them.
    pub fn ints(self, out: &mut Vec<i64>) -> Result<()> {
        match self {
            Field::Bytes(mut b) => {
                while !b.is_empty() {
                    out.push(varint(&mut b)? as i64);
                }
            }
            one => out.push(one.int()?),
        }
        Ok(())
    }
    /// Appends one float, or a packed list of them.
    pub fn floats(self, out: &mut Vec<f32>) -> Result<()> {
        match self {
            Field::Bytes(b) if b.len() % 4 == 0 => out.extend(b.chunks_exact(4).map(|c| f32::from_le_bytes(array(c)))),
            Field::Bytes(_) => return Err(bad("a list of floats has a part of one")),
            one => out.push(one.float()?),
        }
        Ok(())
    }
    /// Appends one double, or a packed list of them.
    pub fn doubles(self, out: &mut Vec<f64>) -> Result<()> {
        match self {
            Field::Bytes(b) if b.len() % 8 == 0 => out.extend(b.chunks_exact(8).map(|c| f64::from_le_bytes(array(c)))),
            Field::Fixed64(v) => out.push(f64::from_bits(v)),
            _ => return Err(bad("a list of doubles has a part of one")),
        }
        Ok(())
    }
}

/// Writes messages.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    fn number(&mut self, mut v: u64) {
        while v >= 128 {
            self.0.push(v as u8 | 128);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    /// An integer.
    pub fn int(&mut self, field: u32, v: i64) {
        self.number(u64::from(field) << 3);
        self.number(v as u64);
    }
    /// A float.
    pub fn float(&mut self, field: u32, v: f32) {
        self.number(u64::from(field) << 3 | 5);
        self.0.extend(v.to_le_bytes());
    }
    /// A string, or bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.number(u64::from(field) << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }
    /// A message.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut w = Writer::default();
        w.int(1, -5);
        w.float(2, 1.5);
        w.message(3, |m| m.bytes(4, b"name"));
        let mut seen = Vec::new();
        fields(&w.0, |n, f| {
            seen.push(match f {
                Field::Varint(v) => format!("{n} {}", v as i64),
                Field::Fixed32(v) => format!("{n} {}", f32::from_bits(v)),
                Field::Bytes(b) => format!("{n} {}", b.len()),
                Field::Fixed64(v) => format!("{n} {v}"),
            });
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, ["1 -5", "2 1.5", "3 6"]);
    }

    #[test]
    fn lies_about_lengths_are_errors() {
        for bytes in [&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0x80; 11], &[0x0d, 1], &[0x0b], &[0x00]] {
            assert!(fields(bytes, |_, _| Ok(())).is_err(), "{bytes:?}");
        }
    }
}
