//! Adapters: linear algebra, einsum, Fourier transforms.

use super::{Arg, GoldenCase};
use ops::linalg::{FftNorm, FftOptions, MatrixNorm, Triangle, TriangularOptions};
use ops::{Axes, Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
///
/// Complex results are recorded with a last axis of two: real and imaginary part. That is how
/// complex tensors are represented here as well; real inputs of complex transforms get a zero
/// imaginary part.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let (x, y) = (|| c.tensor(0), || c.tensor(1));
    Some(Ok(vec![match c.operator.as_str() {
        "matmul" => x().matmul(y()),
        "mm" => x().mm(y()),
        "bmm" => x().bmm(y()),
        "mv" => x().mv(y()),
        "dot" => x().dot(y()),
        "outer" => x().outer(y()),
        "einsum" => Tensor::einsum(&c.str(1, ""), &c.tensors(0).iter().collect::<Vec<_>>()),
        "tensordot" => tensordot(c),
        "addmm" => x().addmm(&y(), &c.tensor(2), c.float("beta", 1.0), c.float("alpha", 1.0)),
        "addmv" => x().addmv(&y(), &c.tensor(2), c.float("beta", 1.0), c.float("alpha", 1.0)),
        "addbmm" => x().addbmm(&y(), &c.tensor(2), c.float("beta", 1.0), c.float("alpha", 1.0)),
        "baddbmm" => x().baddbmm(&y(), &c.tensor(2), c.float("beta", 1.0), c.float("alpha", 1.0)),
        "dist" => x().dist(y(), c.float((2, "p"), 2.0)),
        "norm" => norm(c, c.get((1, "p")), c.get((2, "dim")), c.bool((3, "keepdim"), false), false),
        "linalg.norm" => norm(c, c.get((1, "ord")), c.get((2, "dim")), c.bool("keepdim", false), true),
        "linalg.vector_norm" => norm(c, c.get((1, "ord")), c.get((2, "dim")), c.bool((3, "keepdim"), false), false),
        "linalg.matrix_norm" => {
            let axes = c.ints((2, "dim")).map_or([-2, -1], |d| [d[0], d[1]]);
            matrix_norm(&x(), c.get((1, "ord")), axes, c.bool((3, "keepdim"), false))
        }
        "linalg.vecdot" => x().vecdot(y(), c.int("dim", -1)),
        "linalg.cholesky" if c.bool("upper", false) => x().cholesky_upper(),
        "linalg.cholesky" => x().cholesky(),
        "linalg.det" => x().det(),
        "logdet" => x().logdet(),
        "linalg.slogdet" => return Some(Ok(x().slogdet().to_vec())),
        "linalg.inv" => x().inv(),
        "linalg.solve" => x().solve(&y()),
        "linalg.solve_triangular" => {
            let (upper, right) = (c.bool("upper", false), !c.bool("left", true));
            x().triangular_solve(&y(), TriangularOptions { upper, right, unit: c.bool("unitriangular", false) })
        }
        "linalg.eigvalsh" => {
            x().eigvalsh_of(if c.str((1, "UPLO"), "L") == "U" { Triangle::Upper } else { Triangle::Lower })
        }
        "linalg.svdvals" => x().svdvals(),
        "linalg.pinv" => match c.get("rtol") {
            None => x().pinv(),
            Some(Arg::Tensor(_)) => match c.tensor("rtol").item::<f64>() {
                Ok(r) => x().pinv_rtol(r),
                Err(e) => e.into(),
            },
            Some(_) => x().pinv_rtol(c.float("rtol", 0.0)),
        },
        "fft.fft" => fft(c, |o| x().fft(o).view_as_real()),
        "fft.rfft" => fft(c, |o| x().rfft(o).view_as_real()),
        "fft.irfft" => fft(c, |o| x().irfft(o)),
        _ => return None,
    }]))
}

fn fft(c: &GoldenCase, f: impl Fn(FftOptions) -> Tensor) -> Tensor {
    let n = c.opt_int((1, "n")).map(|n| n as usize);
    match FftNorm::parse(&c.str((3, "norm"), "backward")) {
        Ok(norm) => f(FftOptions { n, axis: c.int((2, "dim"), -1), norm }),
        Err(e) => e.into(),
    }
}

/// `dims` is a number of last and first axes, or two lists.
fn tensordot(c: &GoldenCase) -> Tensor {
    let (a, b) = (c.tensor(0), c.tensor(1));
    match c.get((2, "dims")) {
        Some(Arg::Int(n)) => a.tensordot(b, &(-n..0).collect::<Vec<_>>(), &(0..*n).collect::<Vec<_>>()),
        Some(Arg::Tuple(t) | Arg::List(t)) => {
            let list = |i: usize| t[i].ints().unwrap_or_default();
            a.tensordot(b, &list(0), &list(1))
        }
        other => panic!("dims is {other:?}"),
    }
}

/// PyTorch's many norms: of a matrix where the order is a word or `linalg.norm` is given two axes
/// (or a matrix and an order), else of vectors.
fn norm(c: &GoldenCase, ord: Option<&Arg>, dim: Option<&Arg>, keep: bool, is_linalg: bool) -> Tensor {
    let x = c.tensor(0);
    let rank = x.rank().unwrap_or(0);
    let axes = dim.and_then(Arg::ints).filter(|d| !d.is_empty());
    let named = matches!(ord, Some(Arg::Str(_)));
    let two = axes.as_ref().map_or(rank == 2, |d| d.len() == 2);
    if two && (named || (is_linalg && ord.is_some())) {
        let axes = axes.map_or([-2, -1], |d| [d[0], d[1]]);
        return matrix_norm(&x, ord, axes, keep);
    }
    let p = ord.and_then(Arg::float).unwrap_or(2.0);
    let axes = if rank == 0 { Axes::All } else { axes.map_or(Axes::All, Axes::from) };
    if keep { x.vector_norm_keep(p, axes) } else { x.vector_norm(p, axes) }
}

fn matrix_norm(x: &Tensor, ord: Option<&Arg>, axes: [i64; 2], keep: bool) -> Tensor {
    let norm = match ord {
        Some(Arg::Str(s)) if s == "nuc" => MatrixNorm::Nuclear,
        None | Some(Arg::Str(_)) => MatrixNorm::Frobenius,
        Some(p) => MatrixNorm::Order(p.float().expect("an order is a number")),
    };
    if keep { x.matrix_norm_keep(norm, axes) } else { x.matrix_norm(norm, axes) }
}
