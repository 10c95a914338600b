//! `paged_write`: new keys or values of tokens, written into a paged KV cache.

use crate::rules::{f64s, floats, same};
use crate::{DType, Error, Tensor};
use ir::{Attrs, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `paged_write`.
pub static OP: Op = Op {
    name: "paged_write",
    doc: "A paged KV cache[B, S, G, D] with rows x[T, G, D] written at slots i32[T]. Slot s is position s mod S of \
          block s / S; rows with a slot outside of the cache, such as −1, are skipped. Slots must differ. x is cast to \
          the cache's type. A cache of type i8 is [B, S, G, D + 4]: a row is D numbers of 8 bits with their scale, an \
          f32, behind them. Devices overwrite a cache that is not read again.",
    infer: |c| {
        c.arity(3)?;
        let (cache, x, slots) = (c.shape(0), c.shape(1), c.shape(2));
        if !is_cache(c.dtype(0)) || !c.dtype(1).is_float() || c.dtype(2) != DType::I32 {
            let got = format!("{}, {} and {}", c.dtype(0), c.dtype(1), c.dtype(2));
            return Err(Error::dtype(format!("a float or i8 cache, float rows and i32 slots are needed, not {got}")));
        }
        let fits = |cache: &Shape, x: &Shape| cache[2] == x[1] && cache[3] == stored_width(c.dtype(0), x[2]);
        if cache.rank() != 4 || x.rank() != 3 || !fits(cache, x) || slots.dims() != [x[0]] {
            let got = format!("{cache}, {x} and {slots}");
            return Err(Error::shape(format!("a cache[B, S, G, D], rows[T, G, D] and slots[T] are needed, not {got}")));
        }
        same(c, 0)
    },
    meaning: Meaning::Kernel(|c, args| {
        let row: usize = c.shape(0)[2..].iter().product();
        let (mut cache, mut x) = (args[0].to_f64(), args[1].to_f64());
        if c.dtype(0) == DType::I8 {
            x = x.chunks(c.shape(1)[2].max(1)).flat_map(quantized_row).collect();
        }
        for (t, slot) in args[2].to_i64().into_iter().enumerate() {
            let slots = c.shape(0)[0] * c.shape(0)[1];
            if (0..slots as i64).contains(&slot) {
                cache[slot as usize * row..][..row].copy_from_slice(&x[t * row..][..row]);
            }
        }
        Ok(vec![Literal::from_f64(c.dtype(0), c.shape(0).clone(), &cache)])
    }),
    grad: Grad::Missing("a KV cache is for inference; train with `attention`"),
    cases: || {
        let slots = |s: &[i32]| Literal::generate([s.len()], |i| s[i]);
        let x = f64s([2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let want = f64s([2, 2, 1, 2], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
        vec![
            Case::new(vec![floats([3, 4, 2, 5], 1), floats([3, 2, 5], 2), slots(&[11, 0, 5])], Attrs::new()),
            Case::new(vec![f64s([2, 2, 1, 2], &[0.0; 8]), x, slots(&[3, -1])], Attrs::new())
                .expect(vec![want], "by hand"),
            Case::new(
                vec![Literal::zeros(DType::I8, [1, 4, 2, 12]), floats([3, 2, 8], 2), slots(&[3, -1, 0])],
                Attrs::new(),
            ),
        ]
    },
    ..Op::DEFAULT
};

/// Whether keys and values may be stored in this type.
pub(super) fn is_cache(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::I8
}
/// Elements of a stored row of `d` numbers.
pub(super) fn stored_width(dtype: DType, d: usize) -> usize {
    if dtype == DType::I8 { d + 4 } else { d }
}
/// A row in 8 bits with its scale behind it, as numbers.
fn quantized_row(x: &[f64]) -> Vec<f64> {
    let amax = x.iter().fold(0.0f32, |m, v| m.max((*v as f32).abs()));
    let inverse = if amax > 0.0 { 127.0 / amax } else { 0.0 };
    let numbers = x.iter().map(|v| (*v as f32 * inverse).round_ties_even() as f64);
    numbers.chain((amax / 127.0).to_le_bytes().map(|b| b as i8 as f64)).collect()
}
/// Stored rows of `d` numbers as floats.
pub(super) fn restored(dtype: DType, cache: Vec<f64>, d: usize) -> Vec<f64> {
    if dtype != DType::I8 {
        return cache;
    }
    let row = |r: &[f64]| {
        let scale = f32::from_le_bytes([0, 1, 2, 3].map(|i| r[d + i] as i8 as u8));
        r[..d].iter().map(|q| (*q as f32 * scale) as f64).collect::<Vec<f64>>()
    };
    cache.chunks(d + 4).flat_map(row).collect()
}

impl Tensor {
    /// This paged KV cache `[B, S, G, D]` (`[B, S, G, D + 4]` of type i8: scales are behind the numbers) with rows `x[T, G, D]` written at slots `i32[T]` (block times S plus the
    /// position in the block). Rows with a slot outside of the cache, such as −1, are skipped.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let cache = Tensor::from([[[[0.0f32]], [[0.0]]]]);
    /// let cache = cache.paged_write(&Tensor::from([[[7.0f32]]]), &Tensor::from([1i32]));
    /// assert_eq!(cache.to_vec::<f32>().unwrap(), [0.0, 7.0]);
    /// ```
    #[track_caller]
    pub fn paged_write(&self, x: &Tensor, slots: &Tensor) -> Tensor {
        Tensor::apply1(&OP, &[self, x, slots], Attrs::new())
    }
}
