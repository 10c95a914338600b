//! `grouped_mm`: GEMMs of groups of rows, columns or inner elements, as in mixture-of-experts layers.

use crate::rules::{GradTensors, f64s, floats, i64s, maybe_grads, one, one_dtype, real};
use crate::{DType, Error, Operand, Result, Tensor};
use ir::{Attrs, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `grouped_mm`.
pub static OP: Op = Op {
    name: "grouped_mm",
    doc: "A GEMM for each group. Group g ends at element g of `ends`, i64[G], and begins where the group before it ends; \
          what lies after the last group is in none. a[M, K] and b[G, K, N]: rows of a in group g are multiplied with \
          b[g]. a[G, M, K] and b[K, N]: a[g] with columns of b in group g. Both have the shape [M, N], with zeros where \
          there is no group. a[M, K] and b[K, N]: the result [G, M, N] has for each group the product over its inner \
          elements. Ends that decrease are empty groups; nothing fails.",
    infer: |c| {
        c.arity(3)?;
        real(c, 0)?;
        let dtype = one_dtype_of(c)?;
        one(dtype, Sizes::of(c)?.out)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let (a, b, ends, g) = (c.x(0), c.x(1), c.x(2), c.g(0));
        let (ga, gb) = (g.grouped_mm(b.t(), &ends), a.t().grouped_mm(&g, &ends));
        maybe_grads(vec![Some(ga), Some(gb), None])
    }),
    autocast: ir::Autocast::Narrow,
    linear_in: &[0, 1],
    cases: || {
        let ends = |e: &[i64]| i64s([e.len()], e);
        let case = |a: &[usize], b: &[usize], e: &[i64]| {
            Case::new(vec![floats(Shape::new(a), 1), floats(Shape::new(b), 2), ends(e)], Attrs::new())
        };
        vec![
            case(&[5, 3], &[3, 3, 4], &[2, 2, 4]),
            case(&[3, 2, 3], &[3, 5], &[1, 4, 4]),
            case(&[2, 5], &[5, 3], &[0, 2, 5]),
            // Ends that decrease, and ends outside.
            case(&[5, 3], &[4, 3, 2], &[3, 1, 4, 9]),
            case(&[3, 4], &[0, 4, 2], &[]),
            // Tiles, and parts of them.
            case(&[150, 40], &[3, 40, 70], &[70, 75, 140]).kinked(),
            case(&[3, 70, 40], &[40, 150], &[70, 75, 140]).kinked(),
            case(&[70, 150], &[150, 66], &[70, 75, 140]).kinked(),
            Case::new(
                vec![f64s([3, 1], &[1.0, 2.0, 3.0]), f64s([2, 1, 2], &[1.0, 10.0, 2.0, 20.0]), ends(&[1, 3])],
                Attrs::new(),
            )
            .expect(vec![f64s([3, 2], &[1.0, 10.0, 4.0, 40.0, 6.0, 60.0])], "by hand: 1 × [1, 10], 2 and 3 × [2, 20]"),
        ]
    },
    ..Op::DEFAULT
};

/// The element type of both matrices.
fn one_dtype_of(c: &Call) -> Result<DType> {
    one_dtype(&Call { types: &c.types[..2], ..*c })
}

/// What is divided into groups.
#[derive(Clone, Copy, PartialEq)]
enum Grouped {
    Rows,
    Columns,
    Inner,
}

struct Sizes {
    grouped: Grouped,
    groups: usize,
    m: usize,
    n: usize,
    k: usize,
    out: Shape,
}

impl Sizes {
    fn of(c: &Call) -> Result<Sizes> {
        let (a, b, ends) = (c.shape(0), c.shape(1), &c.types[2]);
        let grouped = match (a.rank(), b.rank()) {
            (2, 3) => Grouped::Rows,
            (3, 2) => Grouped::Columns,
            (2, 2) => Grouped::Inner,
            _ => {
                let ranks = "of the matrices, one or both must have two dimensions, and the other three";
                return Err(Error::shape(format!("{ranks}: {a} × {b}")));
            }
        };
        if ends.dtype != DType::I64 || ends.shape.rank() != 1 {
            return Err(Error::shape(format!("the ends of groups must be i64[G], not {ends}")));
        }
        let groups = ends.shape[0];
        let given = [(grouped == Grouped::Columns).then(|| a[0]), (grouped == Grouped::Rows).then(|| b[0])];
        if let Some(other) = given.into_iter().flatten().find(|&n| n != groups) {
            return Err(Error::shape(format!("{groups} ends of groups, but {other} matrices: {a} × {b}")));
        }
        let (m, k, n) = (a[a.rank() - 2], a[a.rank() - 1], b[b.rank() - 1]);
        if b[b.rank() - 2] != k {
            return Err(Error::shape(format!("inner sizes differ: {a} × {b}")));
        }
        let out = if grouped == Grouped::Inner { Shape::new(&[groups, m, n]) } else { Shape::new(&[m, n]) };
        Ok(Sizes { grouped, groups, m, n, k, out })
    }
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let Sizes { grouped, groups, m, n, k, out } = Sizes::of(c)?;
    let (a, b, ends) = (args[0].to_f64(), args[1].to_f64(), args[2].to_i64());
    // An element is in the first group that ends after it.
    let group = |at: usize| ends.iter().position(|&end| end > at as i64);
    let mut sums = vec![0.0; out.count()];
    for (i, j, p) in (0..m).flat_map(|i| (0..n).flat_map(move |j| (0..k).map(move |p| (i, j, p)))) {
        let (row, column) = (i * k + p, p * n + j);
        let (to, x, y) = match grouped {
            Grouped::Rows => (0, Some(0), group(i).map(|g| g * k * n)),
            Grouped::Columns => (0, group(j).map(|g| g * m * k), Some(0)),
            Grouped::Inner => match group(p) {
                Some(g) => (g * m * n, Some(0), Some(0)),
                None => continue,
            },
        };
        if let (Some(x), Some(y)) = (x, y) {
            sums[to + i * n + j] += a[x + row] * b[y + column];
        }
    }
    debug_assert_eq!(groups, ends.len());
    Ok(vec![Literal::from_f64(c.dtype(0), out, &sums)])
}

impl Tensor {
    /// A GEMM for each group of rows, of columns or of inner elements. Group g ends before element g of `ends`, and begins
    /// where the group before it ends.
    ///
    /// | this | `other` | result |
    /// |---|---|---|
    /// | `[M, K]` | `[G, K, N]` | `[M, N]`: rows of group g, times `other[g]` |
    /// | `[G, M, K]` | `[K, N]` | `[M, N]`: `self[g]` times the columns of group g |
    /// | `[M, K]` | `[K, N]` | `[G, M, N]`: the product over the inner elements of group g |
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let (tokens, experts) = (Tensor::from([[1.0f32], [2.0], [3.0]]), Tensor::from([[[1.0f32]], [[10.0]]]));
    /// let y = tokens.grouped_mm(&experts, &Tensor::from([1i64, 3]));
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 20.0, 30.0]);
    /// ```
    #[track_caller]
    pub fn grouped_mm(&self, other: impl Operand, ends: &Tensor) -> Tensor {
        match self.promoted(other) {
            Ok((a, b)) => Tensor::apply1(&OP, &[&a, &b, &ends.cast(DType::I64)], Attrs::new()),
            Err(e) => e.into(),
        }
    }
}
