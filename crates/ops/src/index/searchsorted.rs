//! `searchsorted`: where values would have to be inserted to keep an order; and counts by value.

use super::sort::compare;
use crate::rules::{f64s, i64s, one, one_dtype};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `searchsorted`.
pub static OP: Op = Op {
    name: "searchsorted",
    doc: "For each value, how many elements of an ascending sequence come before it: those less than it or, if `right`, \
          not greater. The sequence is the last dimension of the first input and has no others, or those of the values.",
    attrs: &[("right", AttrKind::Bool)],
    infer: |c| {
        c.arity(2)?;
        one_dtype(c)?.check_computes()?;
        let (s, v) = (c.shape(0), c.shape(1));
        let fits = s.rank() == 1 || s.rank() > 1 && s.rank() == v.rank() && s[..s.rank() - 1] == v[..v.rank() - 1];
        if !fits {
            return Err(Error::shape(format!("sequences of shape {s} do not fit values of shape {v}")));
        }
        one(DType::I64, v)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Zero,
    cases: || {
        let by = |r: bool| Attrs::new().with("right", r);
        let sorted = f64s([2, 5], &[1., 3., 5., 7., 9., 2., 4., 6., 8., 10.]);
        let values = f64s([2, 3], &[3., 6., 9., 3., 6., 9.]);
        vec![
            Case::new(vec![sorted.clone(), values.clone()], by(false))
                .expect(vec![i64s([2, 3], &[1, 3, 4, 1, 2, 4])], "PyTorch manual: torch.searchsorted"),
            Case::new(vec![sorted, values], by(true))
                .expect(vec![i64s([2, 3], &[2, 3, 5, 1, 3, 4])], "PyTorch manual: torch.searchsorted(right=True)"),
            Case::new(vec![f64s([4], &[1., 2., 3., 4.]), f64s([2], &[2.5, -3.0])], by(false))
                .expect(vec![i64s([2], &[2, 0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (s, v) = (c.shape(0), c.shape(1));
    let (n, right) = (s[s.rank() - 1], c.attrs.bool("right")?);
    let per_row = if s.rank() == 1 { v.count().max(1) } else { v[v.rank() - 1].max(1) };
    fn count<T: Copy>(
        sorted: &[T],
        values: &[T],
        row: impl Fn(usize) -> usize,
        n: usize,
        is_before: impl Fn(T, T) -> bool,
    ) -> Vec<i64> {
        let before = |(i, &x): (usize, &T)| sorted[row(i) * n..][..n].partition_point(|&y| is_before(y, x)) as i64;
        values.iter().enumerate().map(before).collect()
    }
    let row = |i: usize| i / per_row;
    let is_before = |o: std::cmp::Ordering| if right { o.is_le() } else { o.is_lt() };
    let out = if c.dtype(0).is_float() {
        count(&args[0].to_f64(), &args[1].to_f64(), row, n, |y, x| is_before(compare(y, x)))
    } else {
        count(&args[0].to_ints(), &args[1].to_ints(), row, n, |y, x| is_before(y.cmp(&x)))
    };
    Ok(vec![Literal::from_i64(DType::I64, v.clone(), &out)])
}

impl Tensor {
    /// For each value, the index in this ascending sequence before which it would be inserted: the
    /// number of elements less than it.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let indices = Tensor::from([1, 3, 5]).searchsorted(&Tensor::from([3, 4]));
    /// assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor) -> Tensor {
        self.searchsorted_in(values, false)
    }
    /// For each value, the number of elements of this ascending sequence that are not greater.
    #[track_caller]
    pub fn searchsorted_right(&self, values: &Tensor) -> Tensor {
        self.searchsorted_in(values, true)
    }
    #[track_caller]
    fn searchsorted_in(&self, values: &Tensor, right: bool) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(values)?;
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new().with("right", right)))
        })
    }
    /// For each element, the number of the interval between ascending boundaries it falls into.
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor) -> Tensor {
        boundaries.searchsorted(self)
    }

    /// How often each of the numbers 0, 1, 2… occurs, up to the largest, at least `size_min`.
    ///
    /// The result's size depends on the values, so they are computed at once.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 3, 1]).bincount(0).to_vec::<i64>().unwrap(), [0, 2, 0, 1]);
    /// ```
    #[track_caller]
    pub fn bincount(&self, size_min: usize) -> Tensor {
        self.then(|t| {
            let fail = |e: Error| e.in_op("bincount");
            let index = self.as_index("bincount")?.ravel();
            // While a function is traced, `size_min` says how many there are; a larger number is out of range.
            let size = match index.extent() {
                Err(e) if e.kind == ir::ErrorKind::Feed && size_min > 0 => size_min,
                Err(e) => return Err(e),
                Ok((least, _)) if least < 0 => {
                    return Err(fail(Error::value(format!("only numbers from 0 on are counted, not {least}"))));
                }
                Ok((_, most)) => ((most + 1) as usize).max(size_min),
            };
            let ones = Tensor::full_of(t.shape.count(), 1.0, DType::I64);
            Ok(Tensor::full_of(size, 0.0, DType::I64).index_add(0, &index, &ones))
        })
    }
    /// How many elements fall into each of `bins` equal intervals from `lo` to `hi`, which belongs
    /// to the last; others are not counted.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 1.0]);
    /// assert_eq!(x.histogram(4, 0.0, 3.0).to_vec::<i64>().unwrap(), [0, 2, 1, 0]);
    /// ```
    #[track_caller]
    pub fn histogram(&self, bins: usize, lo: f64, hi: f64) -> Tensor {
        self.then(|t| {
            if bins == 0 || lo >= hi || !(hi - lo).is_finite() {
                let e = format!("{bins} bins from {lo} to {hi} are no intervals");
                return Err(Error::value(e).in_op("histogram"));
            }
            let x = self.cast(t.dtype.to_float()).ravel();
            let counts = x.ge(lo).and(x.le(hi)).cast(DType::I64);
            let place = ((&x - lo) * (bins as f64 / (hi - lo))).floor();
            let place = Tensor::where_(&counts.gt(0i64), &place, 0.0).minimum((bins - 1) as f64).cast(DType::I64);
            Ok(Tensor::full_of(bins, 0.0, DType::I64).index_add(0, &place, &counts))
        })
    }
    /// The different elements in ascending order; for each element of the tensor the index of its
    /// equal among them; and how often each occurs.
    ///
    /// How many there are depends on the values, so they are computed at once.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [values, inverse, counts] = Tensor::from([3, 1, 3]).unique();
    /// assert_eq!(values.to_vec::<i32>().unwrap(), [1, 3]);
    /// assert_eq!(inverse.to_vec::<i64>().unwrap(), [1, 0, 1]);
    /// assert_eq!(counts.to_vec::<i64>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn unique(&self) -> [Tensor; 3] {
        let site = ir::Site::here();
        site.scope(|| unique(self)).unwrap_or_else(|e| {
            let t = Tensor::from(e.in_op("unique").at(site));
            [t.clone(), t.clone(), t]
        })
    }
}

impl Tensor {
    /// The least and the greatest element; 0 and -1 if there are none.
    fn extent(&self) -> Result<(i64, i64)> {
        if self.count()? == 0 {
            return Ok((0, -1));
        }
        let both = Tensor::stack(&[self.min(..), self.max(..)], 0).to_vec::<i64>()?;
        Ok((both[0], both[1]))
    }
}

fn unique(x: &Tensor) -> Result<[Tensor; 3]> {
    let (shape, n, dtype) = (x.shape()?, x.count()?, x.dtype()?);
    if dtype == DType::Bool {
        let [values, inverse, counts] = unique(&x.cast(DType::U8))?;
        return Ok([values.cast(DType::Bool), inverse, counts]);
    }
    if dtype.is_complex() {
        return unique_complex(x);
    }
    if n == 0 {
        let none = || Tensor::new(0, &[] as &[i64]);
        return Ok([x.ravel(), none().reshape(&shape), none()]);
    }
    if let Some(found) = unique_counted(x)? {
        return Ok(found);
    }
    let [sorted, places] = x.ravel().sort(0);
    Tensor::eval_all(&[&sorted, &places])?;
    // The first of each run of equals. A NaN is equal to nothing.
    let differs = sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1));
    let is_first = Tensor::concat(&[Tensor::from([true]), differs], 0);
    let firsts = is_first.held_indices()?;
    let number = is_first.cast(DType::I64).cumsum(0) - 1i64;
    let inverse = number.zeros_like().scatter(0, &places, &number).reshape(&shape);
    let ends = Tensor::concat(&[firsts.narrow(0, 1, firsts.count()? - 1), Tensor::from([n as i64])], 0);
    Ok([sorted.take(&firsts, 0), inverse, ends - firsts])
}

/// Elements from which on `unique` looks at their range, and the widest range that is counted.
const COUNTED_MIN: usize = 1 << 12;
const SPAN_MAX: usize = 1 << 24;

/// `unique` of integers from a short range: they are counted, not sorted.
fn unique_counted(x: &Tensor) -> Result<Option<[Tensor; 3]>> {
    let (shape, n, dtype) = (x.shape()?, x.count()?, x.dtype()?);
    if !dtype.is_int() || dtype == DType::U64 || n < COUNTED_MIN {
        return Ok(None);
    }
    let (least, most) = x.cast(DType::I64).extent()?;
    let span =
        most.checked_sub(least).and_then(|s| usize::try_from(s).ok()).map_or(usize::MAX, |s| s.saturating_add(1));
    if span > SPAN_MAX.min(4 * n) {
        return Ok(None);
    }
    let index = x.cast(DType::I64).ravel() - least;
    let ones = Tensor::full_of(n, 1.0, DType::I64);
    let counts = Tensor::full_of(span, 0.0, DType::I64).index_add(0, &index, &ones);
    let is_there = counts.gt(0i64);
    let total = is_there.cast(DType::I64).sum(..);
    // The counts are read again below.
    Tensor::eval_all(&[&counts, &total])?;
    let firsts = is_there.flat_nonzero(total.item::<i64>()? as usize, 0);
    let number = is_there.cast(DType::I64).cumsum(0) - 1i64;
    let values = (&firsts + least).cast(dtype);
    Ok(Some([values, number.take(&index, 0).reshape(&shape), counts.take(&firsts, 0)]))
}

/// `unique` of complex numbers, on the host.
fn unique_complex(x: &Tensor) -> Result<[Tensor; 3]> {
    let l = x.literal()?;
    let (n, values) = (l.count(), l.to_complex());
    let lanes = ir::AxisSplit { outer: 1, size: n, inner: 1 };
    let (mut firsts, mut counts, mut inverse) = (Vec::<usize>::new(), Vec::<i64>::new(), vec![0i64; n]);
    for (p, _) in super::sort::order(&l, lanes, false) {
        if firsts.last().is_none_or(|&first| values[first] != values[p]) {
            firsts.push(p);
            counts.push(0);
        }
        counts[firsts.len() - 1] += 1;
        inverse[p] = firsts.len() as i64 - 1;
    }
    let values = l.pick(&[firsts.len()].into(), |i| Some(firsts[i]));
    Ok([values.into(), Tensor::new(l.shape(), &inverse), Tensor::new(counts.len(), &counts)])
}
