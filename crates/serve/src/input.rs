//! Inputs of a request as they came: pieces of its body, or memory that the body was read to and that a program can read.
//! Pieces are copied once, into the batch that runs them. A request that is a batch by itself is not copied at all.

use crate::failure::{Answered, Failure};
use crate::wire;
use ::bytes::Bytes;
use ir::{DType, Literal, Shape};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where the bytes of a tensor are.
#[derive(Clone)]
pub enum Data {
    /// In one or more pieces, in order.
    Pieces(Vec<Bytes>),
    /// In aligned memory.
    Whole(Arc<ir::Bytes>),
}

impl Data {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The bytes, in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (pieces, whole) = match self {
            Data::Pieces(pieces) => (&pieces[..], None),
            Data::Whole(whole) => (&[][..], Some(whole.as_slice())),
        };
        pieces.iter().map(|p| &p[..]).chain(whole)
    }
}

impl Default for Data {
    fn default() -> Data {
        Data::Pieces(Vec::new())
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data::Pieces(vec![bytes.into()])
    }
}

/// A tensor as it came.
#[derive(Clone)]
pub struct Input {
    dtype: DType,
    shape: Shape,
    data: Data,
}

/// Aligned memory as the owner of a piece.
struct Owner(ir::Bytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl From<Literal> for Input {
    fn from(l: Literal) -> Input {
        let (dtype, shape) = (l.dtype(), l.shape().clone());
        let is_whole = l.buffer().as_slice().len() == l.bytes().len();
        let data = if is_whole { Data::Whole(l.into_buffer()) } else { l.bytes().to_vec().into() };
        Input { dtype, shape, data }
    }
}

impl Input {
    /// A tensor from its bytes, little-endian.
    pub fn new(name: &str, dtype: DType, shape: &[i64], data: Data) -> Answered<Input> {
        let (dims, count) = wire::count(name, shape)?;
        let (need, given) = (count * dtype.size(), data.len());
        if need != given {
            let e = format!("{name}: {given} bytes were sent, but shape {shape:?} takes {need}");
            return Err(Failure::invalid(e));
        }
        if dtype == DType::Bool && data.slices().any(|p| p.iter().any(|b| *b > 1)) {
            return Err(Failure::invalid(format!("{name}: a bool must be the byte 0 or 1")));
        }
        Ok(Input { dtype, shape: Shape::from(dims), data })
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The bytes, in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.data.slices()
    }
    /// How many bytes.
    pub fn byte_count(&self) -> usize {
        self.shape.count() * self.dtype.size()
    }
    /// Writes the bytes to the start of `to`; returns how many.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut at = 0;
        for piece in self.slices() {
            to[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        at
    }
    /// The tensor in memory that is aligned as programs want it: copied only where it lies in pieces.
    pub fn to_literal(&self) -> Literal {
        if let Data::Whole(whole) = &self.data {
            return Literal::from_buffer(self.dtype, self.shape.clone(), whole.clone());
        }
        let mut out = ir::Bytes::any(self.byte_count());
        self.copy_to(out.as_mut());
        Literal::from_buffer(self.dtype, self.shape.clone(), Arc::new(out))
    }
}

/// The body of a request as it was read, not joined.
#[derive(Default)]
pub struct Pieces {
    pieces: VecDeque<Bytes>,
    /// What follows them.
    whole: Option<ir::Bytes>,
    /// Bytes of all.
    len: usize,
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Pieces {
        Pieces { len: bytes.len(), pieces: VecDeque::from([bytes]), whole: None }
    }
}

impl Pieces {
    /// Adds what was read next.
    pub fn push(&mut self, piece: Bytes) {
        self.split_whole();
        self.len += piece.len();
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }
    /// Adds the end of the body, in aligned memory.
    pub fn push_whole(&mut self, whole: ir::Bytes) {
        self.split_whole();
        self.len += whole.as_slice().len();
        self.whole = Some(whole);
    }
    /// Makes a piece of the aligned memory.
    fn split_whole(&mut self) {
        self.pieces.extend(self.whole.take().map(|whole| Bytes::from_owner(Owner(whole))));
    }
    /// Takes the bytes of a tensor, without copying them; `None` if there are fewer.
    pub fn take_tensor(&mut self, len: usize) -> Option<Data> {
        let is_whole = |w: &mut ir::Bytes| self.pieces.is_empty() && w.as_slice().len() == len;
        match self.whole.take_if(is_whole) {
            Some(whole) => {
                self.len -= len;
                Some(Data::Whole(Arc::new(whole)))
            }
            None => self.take(len).map(Data::Pieces),
        }
    }
    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Takes the next `len` bytes, without copying them; `None` if there are fewer.
    pub fn take(&mut self, len: usize) -> Option<Vec<Bytes>> {
        if len > self.len {
            return None;
        }
        if len > self.pieces.iter().map(Bytes::len).sum() {
            self.split_whole();
        }
        let (mut out, mut missing) = (Vec::with_capacity(self.pieces.len().min(2)), len);
        while missing > 0 {
            let first = self.pieces.front_mut()?;
            if first.len() <= missing {
                missing -= first.len();
                out.extend(self.pieces.pop_front());
            } else {
                out.push(first.split_to(missing));
                missing = 0;
            }
        }
        self.len -= len;
        Some(out)
    }
    /// Takes the next `len` bytes as one: copied only where they lie in several pieces.
    pub fn take_joined(&mut self, len: usize) -> Option<Bytes> {
        let mut pieces = self.take(len)?;
        match pieces.len() {
            0 => Some(Bytes::new()),
            1 => pieces.pop(),
            _ => Some(Bytes::from(pieces.concat())),
        }
    }
    /// Reads the pieces one after the other.
    pub fn reader(&mut self) -> impl std::io::Read {
        struct Reader<'a>(std::collections::vec_deque::Iter<'a, Bytes>, &'a [u8]);
        impl std::io::Read for Reader<'_> {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                while self.1.is_empty() {
                    let Some(next) = self.0.next() else { return Ok(0) };
                    self.1 = next;
                }
                self.1.read(to)
            }
        }
        self.split_whole();
        Reader(self.pieces.iter(), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn pieces(parts: &[&'static str]) -> Pieces {
        let mut out = Pieces::default();
        parts.iter().for_each(|p| out.push(Bytes::from_static(p.as_bytes())));
        out
    }

    #[test]
    fn bytes_are_taken_in_order_wherever_they_are_cut() {
        for parts in [&["abcdefgh"][..], &["a", "", "bcd", "efgh"], &["ab", "cdefg", "h"]] {
            let mut text = String::new();
            pieces(parts).reader().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abcdefgh");
            let mut p = pieces(parts);
            assert_eq!(&p.take_joined(3).unwrap()[..], b"abc");
            assert_eq!(p.take(4).unwrap().concat(), b"defg");
            assert!((p.len(), p.take(2).is_none()) == (1, true), "nothing is lost by asking for too much");
            assert_eq!(&p.take_joined(1).unwrap()[..], b"h");
            assert!(p.is_empty() && p.take_joined(0).unwrap().is_empty());
        }
    }

    #[test]
    fn a_piece_is_the_memory_that_was_read() {
        let body = Bytes::from(vec![7u8; 64]);
        let at = body.as_ptr();
        let mut p = Pieces::from(body);
        let taken = p.take_tensor(64).unwrap();
        assert_eq!(taken.slices().next().unwrap().as_ptr(), at);
        let input = Input::new("x", DType::F32, &[2, 8], taken).unwrap();
        assert_eq!((input.byte_count(), input.to_literal().bytes()), (64, &[7u8; 64][..]));
        assert!(Input::new("x", DType::Bool, &[1], vec![2u8].into()).is_err());
        let l = Literal::new([2], &[1.0f32, 2.0]).unwrap();
        assert_eq!(Input::from(l.clone()).to_literal().bytes(), l.bytes());
    }

    /// A body of JSON and one tensor: the program reads the memory that the socket was read to.
    #[test]
    fn aligned_memory_is_not_copied() {
        let body = |bytes: &[u8]| {
            let mut p = pieces(&["json"]);
            p.push_whole(ir::Bytes::copy_of(bytes));
            p
        };
        let mut p = body(&[7; 64]);
        assert_eq!((p.len(), &p.take_joined(4).unwrap()[..]), (68, &b"json"[..]));
        let data = p.take_tensor(64).unwrap();
        let at = data.slices().next().unwrap().as_ptr();
        let input = Input::new("x", DType::F32, &[2, 8], data).unwrap();
        assert_eq!((input.to_literal().bytes().as_ptr(), p.len()), (at, 0));
        // Two tensors share it, and so do a tensor and text that lies in both.
        let mut p = body(b"abcdefgh");
        assert_eq!(&p.take_joined(6).unwrap()[..], b"jsonab");
        assert_eq!(p.take_tensor(2).unwrap().slices().collect::<Vec<_>>(), [b"cd"]);
        assert_eq!(p.take_tensor(4).unwrap().slices().collect::<Vec<_>>(), [b"efgh"]);
        assert!(p.take_tensor(1).is_none() && p.is_empty());
    }
}
