//! `matrix_norm`: the size of matrices.

use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor, axis};
use ir::{Attrs, Call, Case, Site};

/// Which norm of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum MatrixNorm {
    /// Root of the sum of squares.
    #[default]
    Frobenius,
    /// Sum of the singular values.
    Nuclear,
    /// 2 and -2: largest and smallest singular value; 1 and -1: largest and smallest column sum of
    /// magnitudes; infinity and -infinity: of the rows.
    Order(f64),
}
impl MatrixNorm {
    /// Its word in the row's attribute.
    fn word(self) -> String {
        match self {
            MatrixNorm::Frobenius => "fro".into(),
            MatrixNorm::Nuclear => "nuc".into(),
            MatrixNorm::Order(p) => p.to_string(),
        }
    }
}

super::composite!(
    "matrix_norm",
    "The size of the matrices that lie along `axes` (rows, columns), which stay as size 1: fro, nuc, or 1, -1, 2, -2, \
     inf, -inf.",
    1,
    [("ord", Str), ("axes", Ints)],
    body,
    || {
        let by = |p: &str, a: [i64; 2]| Attrs::new().with("ord", p).with("axes", a);
        let mut out: Vec<Case> = ["fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"]
            .iter()
            .map(|p| Case::new(vec![floats([2, 3], 1)], by(p, [0, 1])))
            .collect();
        out.push(Case::new(vec![floats([2, 2, 3], 1)], by("1", [2, 0])));
        let b = || vec![f64s([3, 3], &[-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0])];
        let say = "NumPy manual: np.linalg.norm((np.arange(9) - 4).reshape((3, 3)), ord)";
        for (p, want) in [
            ("fro", 7.745966692414834),
            ("inf", 9.0),
            ("-inf", 2.0),
            ("1", 7.0),
            ("-1", 6.0),
            ("2", 7.3484692283495345),
        ] {
            out.push(Case::new(b(), by(p, [0, 1])).expect(vec![f64s([1, 1], &[want])], say).kinked());
        }
        out
    },
    autocast: ir::Autocast::Wide
);

fn body(c: &Call, t: &[Tensor]) -> Result<Tensor> {
    let x = &t[0];
    let axes = c.attrs.sizes("axes")?;
    let &[row, column] = axes.as_slice() else { return Err(Error::value("two axes are needed")) };
    let rank = c.shape(0).rank();
    if row == column || row >= rank || column >= rank {
        return Err(Error::value(format!("axes {row} and {column} are no two axes of {}", c.shape(0))));
    }
    let kept = c.shape(0).reduce(&[row, column], true);
    let singular = || {
        let rest = (0..rank).filter(|&d| d != row && d != column);
        x.permute(&rest.chain([row, column]).map(|d| d as i64).collect::<Vec<_>>()).svdvals()
    };
    let sums = |over: usize, then: usize, greatest: bool| {
        let s = x.abs().sum_keep(over);
        if greatest { s.max_keep(then) } else { s.min_keep(then) }
    };
    Ok(match c.attrs.str("ord")? {
        "fro" => x.vector_norm_keep(2.0, vec![row, column]),
        "nuc" => singular().sum(-1).reshape(kept),
        "2" => singular().max(-1).reshape(kept),
        "-2" => singular().min(-1).reshape(kept),
        "1" => sums(row, column, true),
        "-1" => sums(row, column, false),
        "inf" => sums(column, row, true),
        "-inf" => sums(column, row, false),
        other => {
            let e = format!("ord must be fro, nuc, 1, -1, 2, -2, inf or -inf, not {other}");
            return Err(Error::value(e));
        }
    })
}

impl Tensor {
    /// The size of the matrices along two axes (rows, columns), which are removed.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, linalg::MatrixNorm};
    /// let x = Tensor::from([[1.0f32, -2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Order(1.0), [-2, -1]).item::<f32>().unwrap(), 6.0);
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm, axes: [i64; 2]) -> Tensor {
        let site = Site::here();
        site.scope(|| self.matrix_norm_keep(norm, axes).squeezed_after(self, &axes.into()))
    }
    /// The size of the matrices along two axes, which keep size 1.
    #[track_caller]
    pub fn matrix_norm_keep(&self, norm: MatrixNorm, axes: [i64; 2]) -> Tensor {
        self.then(|t| {
            let at = |a| axis(a, t.shape.rank()).map_err(|e| e.in_op("matrix_norm"));
            let attrs = Attrs::new().with("ord", norm.word().as_str()).with("axes", [at(axes[0])?, at(axes[1])?]);
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
}
