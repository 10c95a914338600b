//! Rearrangements that users know by name, made of views, concat and pad.

crate::table! {
    cov,
    cross,
    diag_embed,
    diff,
    flatten,
    hstack,
    moveaxis,
    pad_edges,
    pixel_shuffle,
    pixel_unshuffle,
    repeat_interleave,
    roll,
    rot90,
    split,
    squeeze,
    stack,
    tile,
    trace,
    tril,
    triu,
    unbind,
    unflatten,
    unsqueeze,
    vstack,
}

use crate::arith::common;
use crate::{Error, Result, Tensor};
use ir::{Call, Shape};

/// The elements of matrices where row + `k` and column are kept, zeros elsewhere.
fn triangle(
    c: &ir::Call,
    x: &[ir::Value],
    is_kept: fn(&crate::Tensor, crate::Tensor) -> crate::Tensor,
) -> crate::Result<Vec<ir::Value>> {
    c.arity(1)?;
    let k = c.attrs.int("k")?;
    let [rows, columns] = matrix(c)?;
    crate::rules::expand1(x, |x| {
        let (row, column) = (crate::Tensor::iota(rows, ir::DType::I64), crate::Tensor::iota(columns, ir::DType::I64));
        crate::Tensor::where_(&is_kept(&(row.reshape([rows, 1]) + k), column), &x[0], x[0].zeros_like())
    })
}

/// The sizes of the last two dimensions of input 0.
fn matrix(c: &Call) -> Result<[usize; 2]> {
    match c.shape(0).dims() {
        [.., rows, columns] => Ok([*rows, *columns]),
        _ => Err(Error::shape(format!("at least two dimensions are needed, not {}", c.shape(0)))),
    }
}
/// The leading sizes of input 0, and channels, height and width.
fn planes(c: &Call) -> Result<(Shape, [usize; 3])> {
    match c.shape(0).dims() {
        [lead @ .., k, h, w] => Ok((Shape::new(lead), [*k, *h, *w])),
        _ => Err(Error::shape(format!("at least three dimensions are needed, not {}", c.shape(0)))),
    }
}

/// Tensors in their common type.
fn promoted(parts: &[Tensor]) -> Result<Vec<Tensor>> {
    parts.first().ok_or_else(|| Error::value("at least one tensor is needed"))?;
    let dtype = common(&parts.iter().map(Tensor::dtype).collect::<Result<Vec<_>>>()?)?;
    Ok(parts.iter().map(|p| p.cast(dtype)).collect())
}

impl Tensor {
    /// A composite of several tensors of one type.
    #[track_caller]
    fn joined(op: &'static ir::Op, parts: &[Tensor], attrs: impl FnOnce(&[Tensor]) -> Result<ir::Attrs>) -> Tensor {
        let site = ir::Site::here();
        site.scope(|| {
            let run = || -> Result<Tensor> {
                let parts = promoted(parts)?;
                Ok(Tensor::apply1(op, &parts.iter().collect::<Vec<_>>(), attrs(&parts)?))
            };
            run().map_err(|e| e.in_op(op.name).at(site)).into()
        })
    }
    /// For vectors of coordinates, the coordinates of each point of the grid they span: result i
    /// varies along axis i (PyTorch's and NumPy's `indexing="ij"`).
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let grid = Tensor::meshgrid(&[Tensor::from([1, 2]), Tensor::from([3, 4, 5])]);
    /// assert_eq!(grid[1].to_vec::<i32>().unwrap(), [3, 4, 5, 3, 4, 5]);
    /// ```
    #[track_caller]
    pub fn meshgrid(axes: &[Tensor]) -> Vec<Tensor> {
        let site = ir::Site::here();
        let run = || -> Result<Vec<Tensor>> {
            let sizes = axes.iter().map(Tensor::count).collect::<Result<Vec<_>>>()?;
            let one = |(i, x): (usize, &Tensor)| -> Result<Tensor> {
                if x.rank()? > 1 {
                    return Err(
                        Error::shape(format!("coordinates must be vectors, not {}", x.shape()?)).in_op("meshgrid")
                    );
                }
                let mut thin = vec![1; sizes.len()];
                thin[i] = sizes[i];
                Ok(x.reshape(thin).broadcast_to(&sizes))
            };
            axes.iter().enumerate().map(one).collect()
        };
        site.scope(run).unwrap_or_else(|e| vec![Tensor::from(e.at(site)); axes.len()])
    }
}
