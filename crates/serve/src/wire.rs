//! Tensors on the wire: datatypes of the Open Inference Protocol, JSON numbers to bytes and back.

use crate::failure::{Answered, Failure};
use half::{bf16, f16};
use ir::{DType, Literal};
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Write};
use std::marker::PhantomData;

/// Names of the Open Inference Protocol.
const DATATYPES: [(&str, DType); 13] = [
    ("BOOL", DType::Bool),
    ("UINT8", DType::U8),
    ("UINT16", DType::U16),
    ("UINT32", DType::U32),
    ("UINT64", DType::U64),
    ("INT8", DType::I8),
    ("INT16", DType::I16),
    ("INT32", DType::I32),
    ("INT64", DType::I64),
    ("FP16", DType::F16),
    ("BF16", DType::BF16),
    ("FP32", DType::F32),
    ("FP64", DType::F64),
];
/// Axes that a tensor has at most.
const RANK_MAX: usize = 16;

/// The protocol's name of an element type; types that it does not know have none.
pub fn datatype(dtype: DType) -> Option<&'static str> {
    DATATYPES.iter().find(|(_, d)| *d == dtype).map(|(n, _)| *n)
}
/// The element type that the protocol calls so.
pub fn dtype(datatype: &str) -> Answered<DType> {
    let found = DATATYPES.iter().find(|(n, _)| *n == datatype);
    found.map(|(_, d)| *d).ok_or_else(|| Failure::invalid(format!("datatype {datatype:?} is not supported")))
}

/// Elements of a shape that a client sent.
pub fn count(name: &str, shape: &[i64]) -> Answered<(Vec<usize>, usize)> {
    let bad = || Failure::invalid(format!("{name}: shape {shape:?} is not possible"));
    if shape.len() > RANK_MAX {
        return Err(bad());
    }
    let dims: Vec<usize> = shape.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| bad())?;
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|n| *n < 1 << 40).ok_or_else(bad)?;
    Ok((dims, count))
}

/// A tensor from its bytes, little-endian.
pub fn from_raw(name: &str, dtype: DType, shape: &[i64], bytes: &[u8]) -> Answered<Literal> {
    let (dims, count) = count(name, shape)?;
    if count * dtype.size() != bytes.len() {
        let e = format!("{name}: {} bytes were sent, but shape {shape:?} takes {}", bytes.len(), count * dtype.size());
        return Err(Failure::invalid(e));
    }
    Literal::from_bytes(dtype, dims, bytes).map_err(|e| Failure::invalid(format!("{name}: {}", e.message)))
}

/// Elements as bytes, and the shape that their nesting has.
pub struct Parsed {
    /// Little-endian.
    pub bytes: Vec<u8>,
    /// Sizes of nested lists, outermost first.
    pub nesting: Vec<usize>,
}

/// Elements of JSON lists, nested as they like as long as no list is ragged. The text is valid JSON.
pub fn parse(name: &str, dtype: DType, text: &str) -> Answered<Parsed> {
    let mut scan = Scan { name, dtype, text, at: 0, bytes: Vec::new(), nesting: Vec::new() };
    scan.value(0)?;
    Ok(Parsed { bytes: scan.bytes, nesting: scan.nesting })
}

struct Scan<'a> {
    name: &'a str,
    dtype: DType,
    text: &'a str,
    at: usize,
    bytes: Vec<u8>,
    /// Sizes of lists; `usize::MAX`: not known yet.
    nesting: Vec<usize>,
}

impl Scan<'_> {
    fn fail(&self, what: &str) -> Failure {
        Failure::invalid(format!("{}: {what}", self.name))
    }
    /// The next character that is not space.
    fn peek(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self, depth: usize) -> Answered<()> {
        if self.peek() != b'[' {
            if depth != self.nesting.len() {
                return Err(self.fail("lists are ragged"));
            }
            return self.scalar();
        }
        if depth >= RANK_MAX {
            return Err(self.fail("lists are nested too deeply"));
        }
        if depth == self.nesting.len() {
            if !self.bytes.is_empty() {
                return Err(self.fail("lists are ragged"));
            }
            self.nesting.push(usize::MAX);
        }
        self.at += 1;
        let mut length = 0;
        if self.peek() == b']' {
            self.at += 1;
        } else {
            loop {
                self.value(depth + 1)?;
                length += 1;
                let mark = self.peek();
                self.at += 1;
                match mark {
                    b',' => {}
                    b']' => break,
                    _ => return Err(self.fail("data is not a list of numbers")),
                }
            }
        }
        let known = &mut self.nesting[depth];
        if *known == usize::MAX {
            *known = length;
        } else if *known != length {
            return Err(self.fail("lists are ragged"));
        }
        Ok(())
    }

    fn scalar(&mut self) -> Answered<()> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
        let word = &rest[..end];
        self.at += end;
        let bad = || {
            let shown: String = word.chars().take(32).collect();
            Failure::invalid(format!("{}: {shown} is no {}", self.name, datatype(self.dtype).unwrap_or("number")))
        };
        if matches!(word, "true" | "false") {
            if self.dtype != DType::Bool {
                return Err(bad());
            }
            self.bytes.push(u8::from(word == "true"));
            return Ok(());
        }
        if !word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return if word == "null" && self.dtype.is_float() { self.push(f64::NAN) } else { Err(bad()) };
        }
        macro_rules! whole {
            ($($d:ident $t:ty),*) => { match self.dtype {
                $(DType::$d => match word.parse::<$t>() {
                    Ok(x) => self.bytes.extend_from_slice(&x.to_le_bytes()),
                    // Numbers such as 3.0 and 1e3 are whole.
                    Err(_) => match word.parse::<f64>() {
                        Ok(x) if x.fract() == 0.0 && x >= <$t>::MIN as f64 && x <= <$t>::MAX as f64 && x.abs() < 9e15 => {
                            self.bytes.extend_from_slice(&(x as $t).to_le_bytes())
                        }
                        _ => return Err(bad()),
                    },
                },)*
                DType::Bool if word == "0" || word == "1" => self.bytes.push(word.as_bytes()[0] - b'0'),
                DType::F32 => self.bytes.extend_from_slice(&word.parse::<f32>().map_err(|_| bad())?.to_le_bytes()),
                DType::F64 | DType::F16 | DType::BF16 => {
                    let x = word.parse::<f64>().map_err(|_| bad())?;
                    return self.push(x);
                }
                _ => return Err(bad()),
            } };
        }
        whole!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64);
        Ok(())
    }

    fn push(&mut self, x: f64) -> Answered<()> {
        match self.dtype {
            DType::F64 => self.bytes.extend_from_slice(&x.to_le_bytes()),
            DType::F32 => self.bytes.extend_from_slice(&(x as f32).to_le_bytes()),
            DType::F16 => self.bytes.extend_from_slice(&f16::from_f64(x).to_le_bytes()),
            _ => self.bytes.extend_from_slice(&bf16::from_f64(x).to_le_bytes()),
        }
        Ok(())
    }
}

/// A number as JSON: NaN is `null`, infinities are numbers that no float holds.
fn float(out: &mut String, x: f64, shortest: impl std::fmt::Display) {
    match x {
        x if x.is_nan() => out.push_str("null"),
        f64::INFINITY => out.push_str("1e999"),
        f64::NEG_INFINITY => out.push_str("-1e999"),
        _ => drop(write!(out, "{shortest}")),
    }
}

/// One element as JSON.
fn element(out: &mut String, dtype: DType, b: &[u8]) {
    macro_rules! number {
        ($($d:ident $t:ty),*) => { match dtype {
            $(DType::$d => drop(write!(out, "{}", <$t>::from_le_bytes(b.try_into().unwrap_or_default()))),)*
            DType::Bool => out.push_str(if b == [0] { "false" } else { "true" }),
            DType::F16 => { let x = f16::from_le_bytes(b.try_into().unwrap_or_default()).to_f32(); float(out, x.into(), x) }
            DType::BF16 => { let x = bf16::from_le_bytes(b.try_into().unwrap_or_default()).to_f32(); float(out, x.into(), x) }
            DType::F32 => { let x = f32::from_le_bytes(b.try_into().unwrap_or_default()); float(out, x.into(), x) }
            _ => { let x = f64::from_le_bytes(b.try_into().unwrap_or_default()); float(out, x, x) }
        } };
    }
    number!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64);
}

/// Elements as one JSON list.
pub fn flat(out: &mut String, dtype: DType, bytes: &[u8]) {
    out.push('[');
    for (i, b) in bytes.chunks_exact(dtype.size()).enumerate() {
        if i > 0 {
            out.push(',');
        }
        element(out, dtype, b);
    }
    out.push(']');
}

/// Elements as nested JSON lists.
pub fn nested(out: &mut String, dtype: DType, shape: &[usize], bytes: &[u8]) {
    match shape {
        [] => element(out, dtype, bytes),
        [_] => flat(out, dtype, bytes),
        [n, rest @ ..] => {
            out.push('[');
            let part = bytes.len() / (*n).max(1);
            for i in 0..*n {
                if i > 0 {
                    out.push(',');
                }
                nested(out, dtype, rest, &bytes[i * part..(i + 1) * part]);
            }
            out.push(']');
        }
    }
}

/// An integer of JSON, where `3.0` and `1e3` are integers as well.
pub(crate) struct Whole<T>(pub T);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole<T>, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<T: TryFrom<i128>> de::Visitor<'_> for Visitor<T> {
            type Value = Whole<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }
            fn visit_i64<E: de::Error>(self, x: i64) -> Result<Whole<T>, E> {
                let bad = |_| E::invalid_value(Unexpected::Signed(x), &"an integer in range");
                T::try_from(x.into()).map(Whole).map_err(bad)
            }
            fn visit_u64<E: de::Error>(self, x: u64) -> Result<Whole<T>, E> {
                let bad = |_| E::invalid_value(Unexpected::Unsigned(x), &"an integer in range");
                T::try_from(x.into()).map(Whole).map_err(bad)
            }
            fn visit_f64<E: de::Error>(self, x: f64) -> Result<Whole<T>, E> {
                // Beyond 2^64 the conversion saturates far outside of every type it is for.
                let whole = (x.fract() == 0.0).then(|| T::try_from(x as i128).ok()).flatten();
                whole.map(Whole).ok_or_else(|| E::invalid_value(Unexpected::Float(x), &self))
            }
        }
        from.deserialize_any(Visitor(PhantomData))
    }
}

/// Sizes of a tensor.
pub(crate) fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<i64>, D::Error> {
    Ok(Vec::<Whole<i64>>::deserialize(from)?.into_iter().map(|size| size.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        for (text, want) in [("3", 3), ("3.0", 3), ("1e3", 1000), ("-0.0", 0), ("9007199254740993", 9007199254740993)] {
            assert_eq!(serde_json::from_str::<Whole<u64>>(text).unwrap().0, want, "{text}");
        }
        for text in ["3.5", "-1", "-1.0", "1e20", "18446744073709551616", "\"3\"", "true", "null"] {
            assert!(serde_json::from_str::<Whole<u64>>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Whole<i64>>("-2.0").unwrap().0, -2);
    }

    fn round(dtype: DType, text: &str) -> String {
        let parsed = parse("x", dtype, text).unwrap();
        let mut out = String::new();
        nested(&mut out, dtype, &parsed.nesting, &parsed.bytes);
        out
    }

    #[test]
    fn numbers_survive() {
        for (dtype, text) in [
            (DType::F32, "[[1,2.5,-0.1],[3e-7,1e999,null]]"),
            (DType::F64, "[0.1,-1e999]"),
            (DType::F16, "[[[0.5]],[[2]]]"),
            (DType::BF16, "[1,3.140625]"),
            (DType::I64, "[-9223372036854775808,9223372036854775807]"),
            (DType::U64, "[18446744073709551615]"),
            (DType::U8, "[0,255]"),
            (DType::Bool, "[[true],[false]]"),
            (DType::F32, "7"),
        ] {
            assert_eq!(round(dtype, text).replace("0.0000003", "3e-7"), text);
        }
        assert_eq!(round(DType::I32, " [ 1 , 2.0,\n3e1 ] "), "[1,2,30]");
        assert_eq!(round(DType::Bool, "[1,0]"), "[true,false]");
    }

    #[test]
    fn what_is_no_tensor_is_refused() {
        for (dtype, text) in [
            (DType::F32, "[[1,2],[3]]"),
            (DType::F32, "[1,[2]]"),
            (DType::F32, "[[1],2]"),
            (DType::F32, "[\"a\"]"),
            (DType::F32, "[true]"),
            (DType::F32, "{\"a\":1}"),
            (DType::U8, "[256]"),
            (DType::U8, "[-1]"),
            (DType::I8, "[0.5]"),
            (DType::I64, "[null]"),
            (DType::F32, "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"),
        ] {
            assert!(parse("x", dtype, text).is_err(), "{text}");
        }
        assert!(from_raw("x", DType::F32, &[2, -1], &[0; 8]).is_err());
        assert!(from_raw("x", DType::F32, &[i64::MAX, i64::MAX], &[]).is_err());
        assert!(from_raw("x", DType::F32, &[3], &[0; 8]).is_err());
        assert!(from_raw("x", DType::F32, &[2], &[0; 8]).is_ok());
    }
}
