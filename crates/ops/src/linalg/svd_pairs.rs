//! `svd_pairs`: the singular value decomposition of complex matrices given as pairs.

use super::svd::{self, Factors};
use super::{adjoint, each, matrix, paired, unitary};
use crate::Result;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Meaning, Op, Value};

/// The row of `svd_pairs`.
pub static OP: Op = Op {
    name: "svd_pairs",
    doc: "`svd` of a complex matrix of pairs: U, the singular values in descending order, and V*, with pairs for both \
          matrices. The largest component of each column of U is real and positive.",
    attrs: &[("full", AttrKind::Bool)],
    infer: |c| paired::infer(c, &svd::OP, [true, false, true]),
    meaning: Meaning::Kernel(|c, args| {
        let real = Call { types: &[paired::matrices(c)?], attrs: c.attrs };
        let (m, n) = matrix(&real, 0)?;
        let ((left, right), is_full) = (svd::sides(c, m, n)?, c.attrs.bool("full")?);
        each(&real, &args[0], [&[m, left, 2], &[m.min(n)], &[right, n, 2]], |a, out| {
            let (u, s, vh) = unitary::svd(&paired::numbers(a), m, n, is_full);
            out[0].extend(paired::parts(u));
            out[1].extend(s);
            out[2].extend(paired::parts(vh));
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        let by = |full: bool| Attrs::new().with("full", full);
        // diag(i, 1) times [[0, 3], [2, 0]].
        let rotated = f64s([2, 2, 2], &[0.0, 0.0, 0.0, 3.0, 2.0, 0.0, 0.0, 0.0]);
        let u = f64s([2, 2, 2], &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let vh = f64s([2, 2, 2], &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        vec![
            Case::new(vec![floats([3, 2, 2], 1)], by(false)),
            Case::new(vec![floats([2, 3, 2], 2)], by(false)),
            Case::new(vec![floats([2, 2, 2], 3)], by(false)),
            Case::new(vec![floats([2, 2, 2, 2], 4)], by(false)),
            // The phase of additional vectors is free.
            Case::new(vec![floats([3, 2, 2], 1)], by(true)).kinked(),
            Case::new(vec![rotated], by(false))
                .expect(vec![u, f64s([2], &[3.0, 2.0]), vh], "by hand: phases and a permutation times diag(3, 2)"),
        ]
    },
    ..Op::DEFAULT
};

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let g = |i: usize| c.grads[i].is_some().then(|| c.g(i).view_as_complex());
    let (u, v) = (c.y(0).view_as_complex(), adjoint(&c.y(2).view_as_complex()));
    let mut f = Factors::reduced(&u, &c.y(1), &v, g(0), g(2).map(|g| adjoint(&g)))?;
    let turns = [(&f.u, &f.gu), (&f.v, &f.gv)].map(|(x, g)| g.as_ref().map(|g| paired::turning(x, g)));
    if let Some(turn) = turns.into_iter().flatten().reduce(|a, b| a + b) {
        let gu = f.gu.unwrap_or_else(|| f.u.zeros_like());
        f.gu = Some(paired::settled(&f.u, &gu, &turn)?);
    }
    grads([svd::pulled(f, &c.g(1))?.view_as_real()])
}
