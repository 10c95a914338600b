//! Decompositions and what is made of them, matrix by matrix: the kernels of [`lapack`] over batches. Half types are
//! computed in `f32`. What a kernel refuses, such as a singular matrix, goes to the row's reference, which decides in
//! `f64` and words the error.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, never, rows, rows_mut};
use crate::kernels::gemm::Mat;
use crate::kernels::lapack::triangular::{self, Triangle};
use crate::kernels::lapack::{Real, cholesky, eigh, exp, householder, lu, svd};
use crate::pool;
use crate::tile::access::Bases;
use crate::vmath::convert::Narrow;
use half::{bf16, f16};
use ir::{DType, FlatNode, Result, Type};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Linear algebra.
pub static CLAIMS: &[Claim] = &[
    Claim::new("cholesky", always, |n, args, outs| prepare(n, args, outs, Cholesky(side(n)?))),
    Claim::new("triangular_solve", always, |n, args, outs| {
        let (is_upper, is_unit) = (n.attrs.bool("upper")?, n.attrs.bool("unit")?);
        prepare(n, args, outs, Substitution(Triangle { is_upper, is_unit }))
    }),
    Claim::new("solve", always, |n, args, outs| prepare(n, args, outs, Solve)),
    Claim::new("inv", always, |n, args, outs| prepare(n, args, outs, Inverse)),
    Claim::new("det", never, |n, args, outs| prepare(n, args, outs, Determinant)),
    Claim::new("slogdet", never, |n, args, outs| prepare(n, args, outs, LogDeterminant)),
    Claim::new("lu", never, |n, args, outs| prepare(n, args, outs, Elimination)),
    Claim::new("cofactor", never, |n, args, outs| prepare(n, args, outs, Cofactors)),
    Claim::new("qr", never, |n, args, outs| prepare(n, args, outs, Orthogonal)),
    Claim::new("eigh", never, |n, args, outs| {
        let triangle = side(n)?;
        prepare(n, args, outs, Eigen { triangle, has_vectors: outs[1].is_read })
    }),
    Claim::new("svd", never, |n, args, outs| {
        prepare(n, args, outs, Singular { has_vectors: outs[0].is_read || outs[2].is_read })
    }),
    Claim::new("pinv", never, |n, args, outs| prepare(n, args, outs, PseudoInverse { rtol: n.attrs.float("rtol")? })),
    Claim::new("matrix_exp", never, |n, args, outs| prepare(n, args, outs, Exponential)),
    Claim {
        claims: |_, types| is_least_squares(types),
        ..Claim::new("lstsq", never, |n, args, outs| prepare(n, args, outs, LeastSquares))
    },
];

/// A function of one or two matrices.
trait Kernel<T>: Send + Sync + 'static {
    /// Computes the results of one matrix; `false` if it cannot.
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], shapes: &[[usize; 2]]) -> bool;
}

/// A matrix of a batch, row-major.
struct Matrix<'a, T> {
    a: &'a [T],
    m: usize,
    n: usize,
}

/// Elements of a matrix from which on its own GEMMs use the threads, and the batch does not.
const LARGE: usize = 512 * 512;

/// The last two dimensions, of which missing ones count as 1, and how many matrices there are.
fn dims(ty: &Type, batch: usize) -> [usize; 2] {
    let lead = ty.shape.rank().saturating_sub(2);
    let each = ty.shape.count() / batch.max(1);
    match ty.shape[lead..] {
        [m, n] if m * n == each => [m, n],
        _ => [1, each],
    }
}

fn prepare(
    n: &FlatNode,
    args: &[Operand],
    outs: &[Operand],
    kernel: impl Kernel<f32> + Kernel<f64>,
) -> Result<Option<Prepared>> {
    let dtype = args[0].ty.dtype;
    let batch: usize = args[0].ty.shape.iter().rev().skip(2).product();
    if batch == 0 || args.iter().chain(outs).any(|o| o.ty.dtype != dtype) {
        return Ok(None);
    }
    let slow = match n.op.meaning {
        ir::Meaning::Kernel(f) => Some(super::reference(n, args, outs, f)),
        _ => None,
    };
    let (args, outs) = (args.to_vec(), outs.to_vec());
    let run = match dtype {
        DType::F32 if const { ir::is_linked("f32") } => {
            Job::<f32> { args, outs, batch, kernel: Box::new(kernel) }.prepared::<f32>()
        }
        DType::F64 if const { ir::is_linked("f64") } => {
            Job::<f64> { args, outs, batch, kernel: Box::new(kernel) }.prepared::<f64>()
        }
        DType::BF16 if const { ir::is_linked("bf16") } => {
            Job::<f32> { args, outs, batch, kernel: Box::new(kernel) }.prepared::<bf16>()
        }
        DType::F16 if const { ir::is_linked("f16") } => {
            Job::<f32> { args, outs, batch, kernel: Box::new(kernel) }.prepared::<f16>()
        }
        _ => return Ok(None),
    };
    Ok(Some(Box::new(move |bases| match (run(bases), &slow) {
        (true, _) => Ok(()),
        (false, Some(slow)) => slow(bases),
        (false, None) => Err(ir::Error::bug("a matrix that no kernel takes")),
    })))
}

/// A type in memory and how it becomes the one that is computed in.
trait Stored<T>: Copy + Send + Sync + 'static {
    fn wide<'a>(x: &'a [Self], room: &'a mut Vec<T>) -> &'a [T];
    fn store(x: &[T], y: &mut [Self]);
    /// The memory itself, if it is of the type that is computed in.
    fn same(y: &mut [Self]) -> Option<&mut [T]>;
}
impl<T: Real> Stored<T> for T {
    fn wide<'a>(x: &'a [T], _: &'a mut Vec<T>) -> &'a [T] {
        x
    }
    fn store(x: &[T], y: &mut [T]) {
        y.copy_from_slice(x);
    }
    fn same(y: &mut [T]) -> Option<&mut [T]> {
        Some(y)
    }
}
macro_rules! half_stored {
    ($t:ty) => {
        impl Stored<f32> for $t {
            fn wide<'a>(x: &'a [$t], room: &'a mut Vec<f32>) -> &'a [f32] {
                room.resize(x.len(), 0.0);
                // SAFETY: both have as many elements.
                unsafe { <$t as Narrow>::widen(x.as_ptr(), room.as_mut_ptr(), x.len()) };
                room
            }
            fn store(x: &[f32], y: &mut [$t]) {
                // SAFETY: both have as many elements.
                unsafe { <$t as Narrow>::narrow(x.as_ptr(), y.as_mut_ptr(), x.len()) };
            }
            fn same(_: &mut [$t]) -> Option<&mut [f32]> {
                None
            }
        }
    };
}
half_stored!(bf16);
half_stored!(f16);

/// A kernel with its operands.
struct Job<T> {
    args: Vec<Operand>,
    outs: Vec<Operand>,
    batch: usize,
    kernel: Box<dyn Kernel<T>>,
}

/// Runs a kernel; `false` if it could not do one of the matrices.
type Run = Box<dyn Fn(Bases) -> bool + Send + Sync>;

impl<T: Real> Job<T> {
    fn prepared<S: Stored<T>>(self) -> Run {
        Box::new(move |bases| self.each::<S>(bases))
    }
    /// Runs all matrices; `false` if the kernel could not do one of them.
    fn each<S: Stored<T>>(&self, bases: Bases) -> bool {
        let is_done = AtomicBool::new(true);
        let one = |b: usize| {
            if is_done.load(Relaxed) && !self.one::<S>(b, bases) {
                is_done.store(false, Relaxed);
            }
        };
        let [m, n] = dims(&self.args[0].ty, self.batch);
        if m * n >= LARGE && self.batch < pool::threads() {
            (0..self.batch).for_each(one);
        } else {
            let group = (4096 / (m * n * m.min(n)).max(1)).max(1);
            pool::parallel_for(self.batch.div_ceil(group), &|t| {
                (t * group..self.batch.min((t + 1) * group)).for_each(&one);
            });
        }
        is_done.into_inner()
    }
    fn one<S: Stored<T>>(&self, b: usize, bases: Bases) -> bool {
        let mut room: [Vec<T>; 2] = Default::default();
        let ins: Vec<Matrix<T>> = self
            .args
            .iter()
            .zip(&mut room)
            .map(|(o, room)| {
                let [m, n] = dims(&o.ty, self.batch);
                // SAFETY: operands are contiguous, and nothing writes them.
                let all = unsafe { rows::<S>(o, bases) };
                Matrix { a: S::wide(&all[b * m * n..(b + 1) * m * n], room), m, n }
            })
            .collect();
        let shapes: Vec<[usize; 2]> = self.outs.iter().map(|o| dims(&o.ty, self.batch)).collect();
        let mut to: Vec<&mut [S]> = self
            .outs
            .iter()
            .zip(&shapes)
            // SAFETY: each matrix of each result belongs to one task.
            .map(|(o, [m, n])| unsafe { rows_mut::<S>(o, bases).slice(b * m * n, m * n) })
            .collect();
        let mut own: Vec<Vec<T>> = Vec::new();
        if let Some(mut outs) = to.iter_mut().map(|y| S::same(y)).collect::<Option<Vec<_>>>() {
            return self.kernel.run(&ins, &mut outs, &shapes);
        }
        own.extend(shapes.iter().map(|[m, n]| vec![T::ZERO; m * n]));
        let mut outs: Vec<&mut [T]> = own.iter_mut().map(Vec::as_mut_slice).collect();
        let is_done = self.kernel.run(&ins, &mut outs, &shapes);
        own.iter().zip(to).for_each(|(x, y)| S::store(x, y));
        is_done
    }
}

/// Which triangle of a symmetric matrix is read.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
    Both,
}
fn side(n: &FlatNode) -> Result<Side> {
    Ok(match n.attrs.str("triangle")? {
        "lower" => Side::Lower,
        "upper" => Side::Upper,
        _ => Side::Both,
    })
}
impl Side {
    /// The symmetric matrix that is meant.
    fn read<T: Real>(self, a: &[T], n: usize, to: &mut [T]) {
        let half = T::from_f64(0.5);
        for i in 0..n {
            to[i * n + i] = a[i * n + i];
            for j in 0..i {
                let (low, high) = (a[i * n + j], a[j * n + i]);
                let x = match self {
                    Side::Lower => low,
                    Side::Upper => high,
                    Side::Both => (low + high) * half,
                };
                (to[i * n + j], to[j * n + i]) = (x, x);
            }
        }
    }
}

struct Cholesky(Side);
impl<T: Real> Kernel<T> for Cholesky {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let n = ins[0].n;
        self.0.read(ins[0].a, n, outs[0]);
        cholesky::factor(outs[0], n).is_ok()
    }
}

struct Substitution(Triangle);
impl<T: Real> Kernel<T> for Substitution {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let [a, b] = ins else { return false };
        let is_regular = self.0.is_unit || (0..a.n).all(|i| a.a[i * a.n + i] != T::ZERO);
        outs[0].copy_from_slice(b.a);
        // SAFETY: an `n × n` matrix and `n × k` right sides.
        unsafe { triangular::solve(Mat::row_major(a.a.as_ptr(), a.n), self.0, a.n, outs[0].as_mut_ptr(), b.n, b.n) };
        is_regular
    }
}

struct Solve;
impl<T: Real> Kernel<T> for Solve {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let [a, b] = ins else { return false };
        let mut f = a.a.to_vec();
        let pivots = lu::factor(&mut f, a.n, a.n);
        if !pivots.is_singular {
            lu::solve(&f, &pivots, a.n, b.a, outs[0], b.n);
        }
        !pivots.is_singular
    }
}

struct Inverse;
impl<T: Real> Kernel<T> for Inverse {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let n = ins[0].n;
        let mut f = ins[0].a.to_vec();
        let pivots = lu::factor(&mut f, n, n);
        if !pivots.is_singular {
            lu::invert(&f, &pivots, n, outs[0]);
        }
        !pivots.is_singular
    }
}

struct Determinant;
impl<T: Real> Kernel<T> for Determinant {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let n = ins[0].n;
        let mut f = ins[0].a.to_vec();
        let pivots = lu::factor(&mut f, n, n);
        outs[0][0] = T::from_f64(lu::det(&f, &pivots, n));
        true
    }
}

struct LogDeterminant;
impl<T: Real> Kernel<T> for LogDeterminant {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let n = ins[0].n;
        let mut f = ins[0].a.to_vec();
        let pivots = lu::factor(&mut f, n, n);
        let (sign, log) = lu::log_det(&f, &pivots, n);
        (outs[0][0], outs[1][0]) = (T::from_f64(sign), T::from_f64(log));
        true
    }
}

struct Elimination;
impl<T: Real> Kernel<T> for Elimination {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let Matrix { a, m, n } = ins[0];
        let (mut f, k) = (a.to_vec(), m.min(n));
        let pivots = lu::factor(&mut f, m, n);
        let [p, l, u] = outs else { return false };
        p.fill(T::ZERO);
        l.fill(T::ZERO);
        u.fill(T::ZERO);
        for (i, &from) in pivots.order.iter().enumerate() {
            p[from * m + i] = T::ONE;
            let below = i.min(k);
            l[i * k..i * k + below].copy_from_slice(&f[i * n..i * n + below]);
            if i < k {
                l[i * k + i] = T::ONE;
                u[i * n + i..(i + 1) * n].copy_from_slice(&f[i * n + i..(i + 1) * n]);
            }
        }
        true
    }
}

/// Determinant times transposed inverse; through the singular values where the inverse loses digits: the product of
/// all but one needs no division.
struct Cofactors;
impl<T: Real> Kernel<T> for Cofactors {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let (a, n) = (ins[0].a, ins[0].n);
        let mut f = a.to_vec();
        let pivots = lu::factor(&mut f, n, n);
        let det = lu::det(&f, &pivots, n);
        let sizes = (0..n).map(|i| f[i * n + i].to_f64().abs());
        let (least, most) = sizes.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x)));
        if least > 1e-3 * most && det.is_normal() && det.abs() < 1e30 {
            let mut inverse = vec![T::ZERO; n * n];
            lu::invert(&f, &pivots, n, &mut inverse);
            for i in 0..n {
                (0..n).for_each(|j| outs[0][i * n + j] = T::from_f64(inverse[j * n + i].to_f64() * det));
            }
            return true;
        }
        let [mut u, mut vt] = [vec![T::ZERO; n * n], vec![T::ZERO; n * n]];
        let mut s = vec![T::ZERO; n];
        svd::svd(a, n, n, &mut s, Some(svd::Factors { u: &mut u, left: n, vt: &mut vt, right: n }));
        let sign = [&u, &vt].map(|q| {
            let mut f = q.clone();
            let pivots = lu::factor(&mut f, n, n);
            lu::det(&f, &pivots, n).signum()
        });
        for k in 0..n {
            let others: f64 = (0..n).filter(|&j| j != k).map(|j| s[j].to_f64()).product();
            let factor = T::from_f64(others * sign[0] * sign[1]);
            (0..n).for_each(|i| u[i * n + k] = u[i * n + k] * factor);
        }
        product(&u, &vt, [n, n, n], outs[0]);
        true
    }
}

/// `C = A B` of `m × k` and `k × n` matrices.
fn product<T: Real>(a: &[T], b: &[T], [m, k, n]: [usize; 3], c: &mut [T]) {
    let (a, b) = (Mat::row_major(a.as_ptr(), k), Mat::row_major(b.as_ptr(), n));
    // SAFETY: the sizes are the slices'.
    unsafe { crate::kernels::gemm::Gemm::new(m, n, k, a, b, c.as_mut_ptr()).run() };
}

struct Orthogonal;
impl<T: Real> Kernel<T> for Orthogonal {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], shapes: &[[usize; 2]]) -> bool {
        let Matrix { a, m, n } = ins[0];
        let k = shapes[0][1];
        let [q, r] = outs else { return false };
        if a.iter().any(|x| !x.to_f64().is_finite()) {
            return false;
        }
        let mut f = a.to_vec();
        let reflectors = householder::qr(&mut f, m, n);
        q.fill(T::ZERO);
        (0..k.min(m)).for_each(|i| q[i * k + i] = T::ONE);
        reflectors.apply(q, k, true);
        r.fill(T::ZERO);
        (0..k.min(n)).for_each(|i| r[i * n + i..(i + 1) * n].copy_from_slice(&f[i * n + i..(i + 1) * n]));
        // Squares that vanish or overflow on the way.
        r.iter().chain(q.iter()).all(|x| x.to_f64().is_finite())
    }
}

struct Eigen {
    triangle: Side,
    has_vectors: bool,
}
impl<T: Real> Kernel<T> for Eigen {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let n = ins[0].n;
        let mut a = vec![T::ZERO; n * n];
        self.triangle.read(ins[0].a, n, &mut a);
        let [values, vectors] = outs else { return false };
        eigh::eigh(&a, n, values, self.has_vectors.then_some(&mut **vectors));
        true
    }
}

struct Singular {
    has_vectors: bool,
}
impl<T: Real> Kernel<T> for Singular {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], shapes: &[[usize; 2]]) -> bool {
        let Matrix { a, m, n } = ins[0];
        let [u, s, vt] = outs else { return false };
        let factors = svd::Factors { u, left: shapes[0][1], vt, right: shapes[2][0] };
        svd::svd(a, m, n, s, self.has_vectors.then_some(factors));
        true
    }
}

/// `V diag(1 / s) Uᵀ B`, where values not above `rtol` times the greatest count as zero; without B it counts as the
/// identity.
fn pseudo_inverse<T: Real>(x: &Matrix<T>, rtol: f64, b: Option<&Matrix<T>>, out: &mut [T]) {
    let Matrix { a, m, n } = *x;
    let k = m.min(n);
    let [mut u, mut vt, mut s] = [vec![T::ZERO; m * k], vec![T::ZERO; k * n], vec![T::ZERO; k]];
    svd::svd(a, m, n, &mut s, Some(svd::Factors { u: &mut u, left: k, vt: &mut vt, right: k }));
    let least = s.first().map_or(0.0, |s| s.to_f64() * rtol);
    let mut v = vec![T::ZERO; n * k];
    for j in 0..k {
        let value = s[j].to_f64();
        let inverse = T::from_f64(if value > least { 1.0 / value } else { value * 0.0 });
        (0..n).for_each(|i| v[i * k + j] = vt[j * n + i] * inverse);
    }
    let mut ut = vec![T::ZERO; k * m];
    (0..k * m).for_each(|at| ut[at] = u[at % m * k + at / m]);
    match b {
        None => product(&v, &ut, [n, k, m], out),
        Some(b) => {
            let mut inner = vec![T::ZERO; k * b.n];
            product(&ut, b.a, [k, m, b.n], &mut inner);
            product(&v, &inner, [n, k, b.n], out);
        }
    }
}

struct PseudoInverse {
    rtol: f64,
}
impl<T: Real> Kernel<T> for PseudoInverse {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        pseudo_inverse(&ins[0], self.rtol, None, outs[0]);
        true
    }
}

/// Full `f32` or `f64` matrices of the same batch, with no fewer rows than columns.
fn is_least_squares(types: &[Type]) -> bool {
    let [a, b] = types else { return false };
    let lead = a.shape.rank().saturating_sub(2);
    let is_float = matches!(a.dtype, DType::F32 | DType::F64) && a.dtype == b.dtype;
    is_float
        && a.shape.rank() >= 2
        && b.shape.rank() == a.shape.rank()
        && a.shape[..lead] == b.shape[..lead]
        && a.shape[lead] == b.shape[lead]
        && a.shape[lead] >= a.shape[lead + 1]
        && a.shape.count() > 0
}

/// By QR; a matrix whose R says that it may lack full rank goes through its singular values.
struct LeastSquares;
impl<T: Real> Kernel<T> for LeastSquares {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        let [x, b] = ins else { return false };
        let Matrix { a, m, n } = *x;
        let mut f = a.to_vec();
        let reflectors = householder::qr(&mut f, m, n);
        let sizes = (0..n).map(|i| f[i * n + i].to_f64().abs());
        let (least, most) = sizes.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x)));
        let rtol = m as f64 * T::EPSILON.to_f64();
        if least > 64.0 * rtol * most && most.is_finite() {
            let mut rotated = b.a.to_vec();
            reflectors.apply_transposed(&mut rotated, b.n);
            outs[0].copy_from_slice(&rotated[..n * b.n]);
            // SAFETY: an `n × n` triangle and `n × k` right sides.
            unsafe {
                let r = Mat::row_major(f.as_ptr(), n);
                triangular::solve(r, Triangle::UPPER, n, outs[0].as_mut_ptr(), b.n, b.n);
            }
        } else {
            pseudo_inverse(x, rtol, Some(b), outs[0]);
        }
        true
    }
}

struct Exponential;
impl<T: Real> Kernel<T> for Exponential {
    fn run(&self, ins: &[Matrix<T>], outs: &mut [&mut [T]], _: &[[usize; 2]]) -> bool {
        exp::exp(ins[0].a, ins[0].n, outs[0]);
        true
    }
}
