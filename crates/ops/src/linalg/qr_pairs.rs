//! `qr_pairs`: a unitary and a triangular factor of complex matrices given as pairs.

use super::{each, matrix, paired, qr, unitary};
use crate::Result;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Meaning, Op, Value};

/// The row of `qr_pairs`.
pub static OP: Op = Op {
    name: "qr_pairs",
    doc: "`qr` of a complex matrix of pairs: Q and R as pairs. Signs are LAPACK's: the diagonal of R is real.",
    attrs: &[("full", AttrKind::Bool)],
    infer: |c| paired::infer(c, &qr::OP, [true, true]),
    meaning: Meaning::Kernel(|c, args| {
        let real = Call { types: &[paired::matrices(c)?], attrs: c.attrs };
        let (m, n) = matrix(&real, 0)?;
        let k = qr::columns(c, m, n)?;
        each(&real, &args[0], [&[m, k, 2], &[k, n, 2]], |a, out| {
            let (q, r) = unitary::qr(&paired::numbers(a), m, n, k);
            out[0].extend(paired::parts(q));
            out[1].extend(paired::parts(r));
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        let by = |full: bool| Attrs::new().with("full", full);
        let z = 0.0;
        let column = f64s([2, 1, 2], &[z, 3.0, 4.0, z]);
        let q = f64s([2, 1, 2], &[z, -0.6, -0.8, z]);
        vec![
            Case::new(vec![floats([3, 2, 2], 1)], by(false)),
            Case::new(vec![floats([2, 2, 2], 2)], by(false)),
            Case::new(vec![floats([2, 3, 2], 4)], by(false)),
            // The phase of additional vectors is free.
            Case::new(vec![floats([3, 2, 2], 1)], by(true)).kinked(),
            Case::new(vec![column], by(false))
                .expect(vec![q, f64s([1, 1, 2], &[-5.0, z])], "by hand: [3i, 4] has length 5; the sign is LAPACK's")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let [a, q, r] = [c.x(0), c.y(0), c.y(1)].map(|x| x.view_as_complex());
    let [gq, gr] = [c.g(0), c.g(1)].map(|g| g.view_as_complex());
    grads([qr::pulled(&a, &q, &r, &gq, &gr)?.view_as_real()])
}
