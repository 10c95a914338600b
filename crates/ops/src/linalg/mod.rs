//! Linear algebra and transforms.
//!
//! Decompositions work on the last two dimensions, in f64, matrix after matrix.

/// Writes the row of a composite of `$n` inputs (0: any number) whose types follow from its body.
macro_rules! composite {
    ($name:literal, $doc:literal, $n:literal, [$(($attr:literal, $kind:ident)),*], $body:expr, $cases:expr $(, $field:ident: $value:expr)* $(,)?) => {
        #[doc = concat!("The row of `", $name, "`.")]
        pub static OP: ir::Op = ir::Op {
            name: $name,
            doc: $doc,
            attrs: &[$(($attr, ir::AttrKind::$kind)),*],
            infer: |c| $crate::rules::by_expansion(c, EXPAND),
            meaning: ir::Meaning::Composite(EXPAND),
            cases: $cases,
            $($field: $value,)*
            ..ir::Op::DEFAULT
        };
        const EXPAND: fn(&ir::Call, &[ir::Value]) -> ir::Result<Vec<ir::Value>> = |c, args| {
            if $n != 0 {
                c.arity($n)?;
            }
            $crate::rules::expand(args, |t| {
                let body: fn(&ir::Call, &[$crate::Tensor]) -> ir::Result<$crate::Tensor> = $body;
                Ok(vec![body(c, t)?])
            })
        };
    };
}
use composite;

mod dense;
mod paired;
mod schur;
mod unitary;

crate::table! {
    addbmm,
    addmm,
    addmv,
    baddbmm,
    bmm,
    cholesky,
    cofactor,
    det,
    dist,
    dot,
    eig_pairs,
    eigh,
    eigh_pairs,
    eigvalsh,
    einsum,
    fft,
    inner,
    inv,
    irfft,
    kron,
    logdet,
    lstsq,
    lu,
    matrix_exp,
    matrix_norm,
    matrix_power,
    mm,
    mv,
    outer,
    pinv,
    qr,
    qr_pairs,
    rfft,
    slogdet,
    solve,
    svd,
    svd_pairs,
    svdvals,
    tensordot,
    triangular_solve,
    vecdot,
    vector_norm,
}

pub use cholesky::Triangle;
pub use fft::{FftNorm, FftOptions};
pub use matrix_norm::MatrixNorm;
pub use triangular_solve::TriangularOptions;

use crate::kernel::batched_input;
use crate::{DType, Error, Result, Tensor};
use ir::{Batch, Call, Literal, Shape, Type};

/// Fails unless the inputs have the given ranks.
fn ranks<const N: usize>(c: &Call, want: [usize; N]) -> Result<()> {
    c.arity(N)?;
    match (0..N).find(|&i| c.shape(i).rank() != want[i]) {
        None => Ok(()),
        Some(i) => Err(Error::shape(format!("input {i} must have {} dimensions, but it is {}", want[i], c.shape(i)))),
    }
}
/// Rows and columns of input `i`, a float matrix or a batch of them.
fn matrix(c: &Call, i: usize) -> Result<(usize, usize)> {
    crate::rules::float(c, i)?;
    match c.shape(i).dims() {
        [.., m, n] => Ok((*m, *n)),
        _ => Err(Error::shape(format!("input {i} must have at least two dimensions, but it is {}", c.shape(i)))),
    }
}
/// The size of input `i`, a square float matrix or a batch of them.
fn square(c: &Call, i: usize) -> Result<usize> {
    match matrix(c, i)? {
        (m, n) if m == n => Ok(n),
        _ => Err(Error::shape(format!("input {i} must be square, but it is {}", c.shape(i)))),
    }
}
/// The dimensions before the last two.
fn lead(s: &Shape) -> Shape {
    Shape::new(&s[..s.rank() - 2])
}
/// A batch shape with further dimensions.
fn with(lead: &Shape, more: &[usize]) -> Shape {
    lead.iter().chain(more).copied().collect()
}
/// A result type with the batch shape of input 0.
fn like(c: &Call, more: &[usize]) -> Type {
    Type::new(c.dtype(0), with(&lead(c.shape(0)), more))
}

/// Runs `f` on each matrix of a batch; `f` appends to the results.
fn each<const N: usize>(
    c: &Call,
    x: &Literal,
    outs: [&[usize]; N],
    mut f: impl FnMut(&[f64], &mut [Vec<f64>; N]) -> Result<(), String>,
) -> Result<Vec<Literal>> {
    let batch = lead(c.shape(0));
    let data = x.to_f64();
    let size = data.len() / batch.count().max(1);
    let mut got: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for b in 0..batch.count() {
        f(&data[b * size..(b + 1) * size], &mut got).map_err(|e| blame(&batch, b, &e))?;
    }
    Ok(got.iter().zip(outs).map(|(d, o)| Literal::from_f64(x.dtype(), with(&batch, o), d)).collect())
}
/// What is wrong with one matrix of a batch.
fn blame(batch: &Shape, b: usize, what: &str) -> Error {
    if batch.rank() == 0 {
        return Error::value(format!("the matrix {what}"));
    }
    let mut index = vec![0; batch.rank()];
    let mut rest = b;
    for d in (0..batch.rank()).rev() {
        index[d] = rest % batch[d];
        rest /= batch[d];
    }
    Error::value(format!("matrix {index:?} of the batch {what}"))
}

/// The batching rule of ops on the last two dimensions: one more batch dimension in front.
const BATCH: Batch = Batch::Rule(|c| {
    let inputs: Vec<Tensor> = (0..c.inputs.len()).map(|i| batched_input(c, i)).collect();
    let outs = Tensor::apply(c.op, &inputs.iter().collect::<Vec<_>>(), c.attrs.clone());
    outs.iter().map(|t| t.value().cloned()).collect()
});

/// Column number minus row number of each place of a matrix.
fn offsets(m: usize, n: usize) -> Tensor {
    Tensor::iota(n, DType::I64) - Tensor::iota(m, DType::I64).reshape([m, 1])
}
/// The elements on and below diagonal `k`, zeros elsewhere.
fn lower(x: &Tensor, k: i64) -> Result<Tensor> {
    let shape = x.shape()?;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    Ok(Tensor::where_(&offsets(m, n).le(k), x, 0.0))
}
/// The elements on and above diagonal `k`, zeros elsewhere.
fn upper(x: &Tensor, k: i64) -> Result<Tensor> {
    Ok(lower(&x.t(), -k)?.t())
}
/// Lower triangle with half of the diagonal: what symmetric matrices are the symmetric part of.
fn halved(x: &Tensor) -> Result<Tensor> {
    Ok((lower(x, 0)? + lower(x, -1)?) * 0.5)
}
/// The conjugate transpose.
fn adjoint(x: &Tensor) -> Tensor {
    x.t().conj()
}
/// The symmetric part, Hermitian of complex numbers.
fn hermitian(x: &Tensor) -> Tensor {
    (x + adjoint(x)) * 0.5
}
/// The gradient of the first `k` columns of an orthogonal or unitary matrix, through the others as
/// well: those span what the first do not, and move with them.
fn complemented(q: &Tensor, g: &Tensor, k: usize) -> Result<Tensor> {
    let shape = q.shape()?;
    let more = shape[shape.rank() - 1] - k;
    if more == 0 {
        return Ok(g.clone());
    }
    let (first, others) = (q.narrow(-1, 0, k), q.narrow(-1, k, more));
    Ok(g.narrow(-1, 0, k) - others.matmul(adjoint(&g.narrow(-1, k, more))).matmul(first))
}
/// A vector as a diagonal matrix, over batches.
fn diagonal_matrix(v: &Tensor) -> Result<Tensor> {
    let ty = v.value()?.ty();
    let n = ty.shape[ty.shape.rank() - 1];
    Ok(v.unsqueeze(-2) * Tensor::eye_of(n, n, ty.dtype))
}
/// A number for each matrix, shaped to multiply it.
fn per_matrix(v: &Tensor) -> Tensor {
    v.unsqueeze(-1).unsqueeze(-1)
}

/// A positive definite matrix, larger than the blocks that devices work in.
fn definite(n: usize) -> ir::Literal {
    let at = |i: usize, j: usize| if i == j { n as f64 } else { ((i * j + i + j) % 7) as f64 / 7.0 };
    crate::rules::f64s([n, n], &(0..n * n).map(|e| at(e / n, e % n)).collect::<Vec<f64>>())
}
