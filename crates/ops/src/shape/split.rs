//! `split`: consecutive pieces along an axis.

use crate::rules::{GradTensors, expand, f64s, floats, grads};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Type, Types};
use smallvec::SmallVec;

/// The row of `split`.
pub static OP: Op = Op {
    name: "split",
    doc: "Consecutive pieces of the given `sizes` along `axis`.",
    attrs: &[("axis", AttrKind::Int), ("sizes", AttrKind::Ints)],
    infer,
    meaning: Meaning::Composite(|c, x| {
        let (at, sizes) = (c.attrs.int("axis")?, c.attrs.sizes("sizes")?);
        let mut start = 0;
        let mut piece = |x: &Tensor, size: usize| {
            start += size;
            x.narrow(at, start - size, size)
        };
        expand(x, |x| Ok(sizes.iter().map(|&n| piece(&x[0], n)).collect()))
    }),
    // One concatenation instead of a sum of padded pieces.
    grad: Grad::Rule(|c| {
        let pieces: Vec<Tensor> = (0..c.outputs.len()).map(|o| c.g(o)).collect();
        grads([Tensor::concat(&pieces, c.attrs.int("axis")?)])
    }),
    cases: || {
        let by = |a: i64, s: &[i64]| Attrs::new().with("axis", a).with("sizes", s);
        vec![
            Case::new(vec![floats([2, 5], 1)], by(1, &[2, 3])),
            Case::new(vec![f64s([5], &[1., 2., 3., 4., 5.])], by(0, &[1, 4]))
                .expect(vec![f64s([1], &[1.]), f64s([4], &[2., 3., 4., 5.])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn infer(c: &Call) -> Result<Types> {
    c.arity(1)?;
    let (at, sizes) = (c.axis("axis")?, c.attrs.sizes("sizes")?);
    if sizes.is_empty() || sizes.iter().sum::<usize>() != c.shape(0)[at] {
        return Err(Error::shape(format!("sizes {sizes:?} do not add up to axis {at} of {}", c.shape(0))));
    }
    let piece = |&n: &usize| {
        let mut shape = c.shape(0).clone();
        shape.dims_mut()[at] = n;
        Type::new(c.dtype(0), shape)
    };
    Ok(sizes.iter().map(piece).collect::<SmallVec<_>>())
}

impl Tensor {
    /// Consecutive pieces of the given sizes along an axis. On an error each piece carries it.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let parts = Tensor::from([1, 2, 3]).split_sizes(&[1, 2], 0);
    /// assert_eq!(parts[1].to_vec::<i32>().unwrap(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], along: i64) -> Vec<Tensor> {
        let site = ir::Site::here();
        let pieces = || -> Result<Vec<Tensor>> {
            let (x, at) = self.at_axis("split", along)?;
            let pieces = Tensor::apply(&OP, &[&x], Attrs::new().with("axis", at).with("sizes", sizes));
            pieces[0].value()?;
            Ok(pieces.into_vec())
        };
        site.scope(pieces).unwrap_or_else(|e| vec![e.at(site).into(); sizes.len().max(1)])
    }
    /// Consecutive pieces of `size` along an axis, the last one smaller if it does not divide.
    #[track_caller]
    pub fn split(&self, size: usize, along: i64) -> Vec<Tensor> {
        let site = ir::Site::here();
        let sizes = || -> Result<Vec<usize>> {
            let (x, at) = self.at_axis("split", along)?;
            let all = x.shape()?[at];
            if size == 0 && all > 0 {
                return Err(Error::value("the size must be 1 or more").in_op("split"));
            }
            let whole = all.checked_div(size).unwrap_or(0);
            let rest = all - whole * size;
            let tail = (rest > 0 || whole == 0).then_some(rest);
            Ok(std::iter::repeat_n(size, whole).chain(tail).collect())
        };
        match sizes() {
            Ok(sizes) => site.scope(|| self.split_sizes(&sizes, along)),
            Err(e) => vec![e.at(site).into()],
        }
    }
    /// At most `count` consecutive pieces of one size along an axis, the last one smaller if it
    /// does not divide: PyTorch's `chunk`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [q, k, v]: [Tensor; 3] = Tensor::zeros([4, 6]).chunk(3, -1).try_into().unwrap();
    /// assert_eq!(v.dims().unwrap(), [4, 2]);
    /// ```
    #[track_caller]
    pub fn chunk(&self, count: usize, along: i64) -> Vec<Tensor> {
        let site = ir::Site::here();
        let size = || -> Result<usize> {
            let (x, at) = self.at_axis("chunk", along)?;
            if count == 0 {
                return Err(Error::value("the number of pieces must be 1 or more").in_op("chunk"));
            }
            Ok(x.shape()?[at].div_ceil(count))
        };
        match size() {
            Ok(size) => site.scope(|| self.split(size, along)),
            Err(e) => vec![Tensor::from(e.at(site)); count.max(1)],
        }
    }
}
