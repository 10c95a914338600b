//! `eigh_pairs`: eigenvalues and eigenvectors of a Hermitian matrix given as pairs.

use super::{Triangle, each, eigh, paired, unitary};
use crate::Result;
use crate::rules::{GradTensors, f64s, grads};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Meaning, Op, Value};

/// The row of `eigh_pairs`.
pub static OP: Op = Op {
    name: "eigh_pairs",
    doc: "`eigh` of a Hermitian matrix of pairs: eigenvalues, ascending, and eigenvectors as columns of pairs, each \
          with a real and positive largest component. `triangle` says which part is read; the gradient is that of a \
          Hermitian matrix in any case.",
    attrs: &[("triangle", AttrKind::Str)],
    infer: |c| paired::infer(c, &eigh::OP, [false, true]),
    meaning: Meaning::Kernel(|c, args| {
        let (ty, triangle) = (paired::matrices(c)?, Triangle::parse(c.attrs.str("triangle")?)?);
        let real = Call { types: &[ty], attrs: c.attrs };
        let n = super::square(&real, 0)?;
        each(&real, &args[0], [&[n], &[n, n, 2]], |a, out| {
            let (values, vectors) = unitary::eigh(&triangle.read(&paired::numbers(a), n), n);
            out[0].extend(values);
            out[1].extend(paired::parts(vectors));
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        let by = |t: &str| Attrs::new().with("triangle", t);
        let r = 0.5f64.sqrt();
        let pauli = f64s([2, 2, 2], &[0.0, 0.0, 9.0, 9.0, 0.0, 1.0, 0.0, 0.0]);
        let vectors = f64s([2, 2, 2], &[r, 0.0, r, 0.0, 0.0, -r, 0.0, r]);
        vec![
            Case::new(vec![sample()], by("both")),
            Case::new(vec![sample()], by("upper")).kinked(),
            Case::new(vec![pauli], by("lower"))
                .expect(vec![f64s([2], &[-1.0, 1.0]), vectors], "by hand: Pauli's second matrix")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// Hermitian, 3 by 3.
fn sample() -> ir::Literal {
    let upper = [(2.0, 0.0), (0.7, 0.2), (-0.3, 0.9), (-1.0, 0.0), (0.4, -0.6), (0.5, 0.0)];
    let at = |i: usize, j: usize| upper[i * (5 - i) / 2 + j];
    let parts: Vec<f64> = (0..9)
        .flat_map(|k| match (k / 3, k % 3) {
            (i, j) if i <= j => [at(i, j).0, at(i, j).1],
            (i, j) => [at(j, i).0, -at(j, i).1],
        })
        .collect();
    f64s([3, 3, 2], &parts)
}

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let v = c.y(1).view_as_complex();
    let gv = match c.grads[1] {
        Some(_) => {
            let g = c.g(1).view_as_complex();
            Some(paired::settled(&v, &g, &paired::turning(&v, &g))?)
        }
        None => None,
    };
    grads([eigh::pulled(&c.y(0), &v, &c.g(0), gv.as_ref())?.view_as_real()])
}
