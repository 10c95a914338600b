//! Complex numbers: values against textbook identities, gradients against finite differences in both
//! parts, second order included, and what is refused.

use cpu as _;
use ir::{Complex, DType, Literal};
use std::slice::from_ref;
use talweg_ops::linalg::{Triangle, TriangularOptions};
use talweg_ops::{Result, Tensor, control, grad, vmap};

type C = Complex<f64>;
type Function = fn(&Tensor) -> Tensor;

/// Functions that are smooth at the samples.
const FUNCTIONS: &[(&str, Function, fn(C) -> C)] = &[
    ("neg", |z| -z, |z| -z),
    ("square", Tensor::square, |z| z * z),
    ("recip", Tensor::recip, |z| z.inv()),
    ("exp", Tensor::exp, |z| z.exp()),
    ("exp2", Tensor::exp2, |z| z.exp2()),
    ("expm1", Tensor::expm1, |z| z.exp() - 1.0),
    ("log", Tensor::log, |z| z.ln()),
    ("log2", Tensor::log2, |z| z.ln() / 2f64.ln()),
    ("log10", Tensor::log10, |z| z.ln() / 10f64.ln()),
    ("log1p", Tensor::log1p, |z| (z + 1.0).ln()),
    ("sqrt", Tensor::sqrt, |z| z.sqrt()),
    ("rsqrt", Tensor::rsqrt, |z| z.sqrt().inv()),
    ("sin", Tensor::sin, |z| z.sin()),
    ("cos", Tensor::cos, |z| z.cos()),
    ("tan", Tensor::tan, |z| z.tan()),
    ("sinh", Tensor::sinh, |z| z.sinh()),
    ("cosh", Tensor::cosh, |z| z.cosh()),
    ("tanh", Tensor::tanh, |z| z.tanh()),
    ("asin", Tensor::asin, |z| z.asin()),
    ("acos", Tensor::acos, |z| z.acos()),
    ("atan", Tensor::atan, |z| z.atan()),
    ("asinh", Tensor::asinh, |z| z.asinh()),
    ("acosh", Tensor::acosh, |z| z.acosh()),
    ("atanh", Tensor::atanh, |z| z.atanh()),
    ("sign", Tensor::sign, |z| z / z.norm()),
    ("conj", Tensor::conj, |z| z.conj()),
    ("abs", |z| z.abs().to_complex(), |z| z.norm().into()),
    ("angle", |z| z.angle().to_complex(), |z| z.arg().into()),
    ("real", |z| z.real().to_complex(), |z| z.re.into()),
    ("imag", |z| z.imag().to_complex(), |z| z.im.into()),
    ("cube", |z| z.pow(3), |z| z * z * z),
    ("power", |z| z.pow(C::new(0.5, -1.5)), |z| z.powc(C::new(0.5, -1.5))),
    ("quotient", |z| C::new(2.0, 1.0).operand_of(z) / z, |z| C::new(2.0, 1.0) / z),
    ("sum", |z| z * z.sum(..), |z| z * SAMPLES.iter().sum::<C>()),
    ("prod", |z| z / z.prod(..), |z| z / SAMPLES.iter().product::<C>()),
];

/// A number as a tensor beside another.
trait OperandOf {
    fn operand_of(self, other: &Tensor) -> Tensor;
}
impl OperandOf for C {
    fn operand_of(self, other: &Tensor) -> Tensor {
        talweg_ops::Operand::operand(self, other.dtype().unwrap())
    }
}

/// In every quadrant, away from cuts and zeros.
const SAMPLES: [C; 5] = [C::new(0.7, 0.4), C::new(-1.3, 0.6), C::new(-0.2, -0.8), C::new(1.9, -0.3), C::new(0.05, 1.4)];

fn tensor(zs: &[C]) -> Tensor {
    Tensor::new(zs.len(), zs)
}
fn values(t: &Tensor) -> Vec<C> {
    t.to_vec::<C>().unwrap()
}
fn close(what: &str, got: &[C], want: &[C], tolerance: f64) {
    let is_close = |(a, b): (&C, &C)| (a - b).norm() <= tolerance * b.norm().max(1.0);
    assert!(got.len() == want.len() && got.iter().zip(want).all(is_close), "{what}: {got:?} instead of {want:?}");
}

#[test]
fn functions_have_their_values() {
    for (name, f, want) in FUNCTIONS {
        close(name, &values(&f(&tensor(&SAMPLES))), &SAMPLES.map(want), 1e-12);
        // In the narrow type as well, and through the slow truth.
        let narrow = f(&tensor(&SAMPLES).cast(DType::C64)).cast(DType::C128);
        close(name, &values(&narrow), &SAMPLES.map(want), 2e-5);
    }
}

/// A real function of the results in which both parts count.
fn objective(f: Function, z: &Tensor) -> Tensor {
    let y = f(z);
    let weights = Tensor::from([0.3, -1.1, 0.7, 0.9, -0.4]);
    ((y.real() * &weights).sum(..) + (y.imag().sin() * (weights + 1.0)).sum(..)) * 0.5
}
/// Central differences along both parts of every element.
fn differences(f: &dyn Fn(&Tensor) -> f64) -> Vec<C> {
    let h = 1e-5;
    let at = |i: usize, d: C| {
        let mut zs = SAMPLES;
        zs[i] += d;
        f(&tensor(&zs).requires_grad())
    };
    let slope = |i: usize, d: C| (at(i, d * h) - at(i, d * -h)) / (2.0 * h);
    (0..SAMPLES.len()).map(|i| C::new(slope(i, C::ONE), slope(i, C::I))).collect()
}

#[test]
fn gradients_match_finite_differences_in_both_orders() {
    for (name, f, _) in FUNCTIONS {
        let z = tensor(&SAMPLES).requires_grad();
        let g = grad(&objective(*f, &z), from_ref(&z)).unwrap()[0].clone();
        close(name, &values(&g), &differences(&|z| objective(*f, z).item().unwrap()), 1e-6);
        let length = |z: &Tensor| grad(&objective(*f, z), from_ref(z)).unwrap()[0].abs().square().sum(..);
        let h = grad(&length(&z), from_ref(&z)).unwrap()[0].clone();
        close(name, &values(&h), &differences(&|z| length(z).item().unwrap()), 1e-5);
    }
}

#[test]
fn matrices_multiply_invert_and_solve() {
    let zs: Vec<C> = (0..8).map(|i| C::new((i * i % 7) as f64 - 2.0, (i * 3 % 5) as f64 - 1.5)).collect();
    let a = Tensor::new([2, 2, 2], &zs);
    let eye = Tensor::eye_of(2, 2, DType::C128).broadcast_to([2, 2, 2]);
    close("inv", &values(&a.matmul(a.inv())), &values(&eye), 1e-12);
    let b = Tensor::new([2, 2, 1], &zs[..4]);
    close("solve", &values(&a.matmul(a.solve(&b))), &zs[..4], 1e-12);
    let by_hand = zs[0] * zs[4] + zs[1] * zs[6];
    let first = a.select(0, 0).matmul(a.select(0, 1));
    close("matmul", &values(&first)[..1], &[by_hand], 1e-12);
    let (u, v) = (tensor(&zs[..3]), tensor(&zs[3..6]));
    let dot: C = (0..3).map(|i| zs[i].conj() * zs[3 + i]).sum();
    close("vecdot", &values(&u.vecdot(&v, 0).reshape([1])), &[dot], 1e-12);
    let running: Vec<C> = zs
        .iter()
        .scan(C::ONE, |p, z| {
            *p *= z;
            Some(*p)
        })
        .collect();
    close("cumprod", &values(&tensor(&zs).cumprod(0)), &running, 1e-12);
}

/// A batch of complex matrices of full rank.
fn matrices(batch: usize, m: usize, n: usize) -> Tensor {
    Tensor::from(talweg_ops::rules::floats([batch, m, n, 2], 11)).view_as_complex()
}
fn adjoint(t: &Tensor) -> Tensor {
    t.t().conj()
}
fn assert_same(what: &str, a: &Tensor, b: &Tensor, tolerance: f64) {
    assert_eq!(a.shape().unwrap(), b.shape().unwrap(), "{what}");
    close(what, &values(&a.to_complex()), &values(&b.to_complex()), tolerance);
}
fn assert_unitary(what: &str, u: &Tensor) {
    let n = *u.shape().unwrap().last().unwrap();
    let product = adjoint(u).matmul(u);
    assert_same(what, &product, &Tensor::eye_of(n, n, DType::C128).broadcast_to(product.shape().unwrap()), 1e-12);
}

#[test]
fn decompositions_give_complex_matrices_back() {
    for (m, n) in [(3, 3), (4, 2), (2, 4), (1, 3), (3, 0)] {
        let a = matrices(2, m, n);
        let [u, s, vh] = a.svd();
        assert_same("svd", &(&u * s.unsqueeze(-2)).matmul(&vh), &a, 1e-12);
        assert_same("svdvals", &a.svdvals(), &s, 1e-12);
        let [full, t, right] = a.svd_full();
        assert_eq!((full.shape().unwrap()[2], right.shape().unwrap()[1]), (m, n));
        let k = m.min(n);
        let part = full.narrow(-1, 0, k) * t.unsqueeze(-2);
        assert_same("svd_full", &part.matmul(right.narrow(-2, 0, k)), &a, 1e-12);
        let [q, r] = a.qr();
        assert_same("qr", &q.matmul(&r), &a, 1e-12);
        let [all, tall] = a.qr_full();
        assert_same("qr_full", &all.matmul(&tall), &a, 1e-12);
        for (what, x) in [("u", &u), ("v", &adjoint(&vh)), ("all u", &full), ("all v", &adjoint(&right)), ("q", &q)] {
            assert_unitary(what, x);
        }
        assert_unitary("all q", &all);
        let p = a.pinv();
        assert_same("pinv", &a.matmul(&p).matmul(&a), &a, 1e-12);
        let h = adjoint(&a).matmul(&a);
        let [w, v] = h.eigh();
        assert_unitary("v", &v);
        assert_same("eigh", &(&v * w.unsqueeze(-2)).matmul(adjoint(&v)), &h, 1e-12);
        assert_same("eigvalsh", &h.eigvalsh(), &w, 1e-12);
    }
    // A matrix of rank one: the bases are whole all the same.
    let x = matrices(1, 3, 1);
    let a = x.matmul(adjoint(&x));
    assert_unitary("q of rank one", &a.qr()[0]);
    assert_unitary("u of rank one", &a.svd()[0]);
    let [_, v] = a.eigh();
    assert_unitary("v of rank one", &v);
}

#[test]
fn each_triangle_is_a_hermitian_matrix() {
    let a = matrices(1, 3, 3);
    let lower = a.tril(-1) + adjoint(&a.tril(-1)) + a.real().tril(0).triu(0).to_complex();
    let upper = a.triu(1) + adjoint(&a.triu(1)) + a.real().tril(0).triu(0).to_complex();
    for (triangle, whole) in [(Triangle::Lower, &lower), (Triangle::Upper, &upper)] {
        assert_same("eigvalsh", &a.eigvalsh_of(triangle), &whole.eigvalsh(), 1e-12);
        let [_, v] = a.eigh_of(triangle);
        let [_, want] = whole.eigh();
        assert_same("eigh", &v, &want, 1e-12);
    }
}

#[test]
fn triangular_systems_are_solved() {
    let (a, b) = (matrices(2, 3, 3), matrices(2, 3, 2));
    for upper in [false, true] {
        for unit in [false, true] {
            let x = a.triangular_solve(&b, TriangularOptions { upper, unit, ..Default::default() });
            let mut t = if upper { a.triu(0) } else { a.tril(0) };
            if unit {
                t = t - a.tril(0).triu(0) + Tensor::eye_of(3, 3, DType::C128);
            }
            assert_same("triangular_solve", &t.matmul(x), &b, 1e-12);
        }
    }
    let zero = Tensor::new([1, 1], &[C::ZERO]);
    let e = zero.triangular_solve(&zero, TriangularOptions::default()).eval().unwrap_err().to_string();
    assert!(e.contains("singular"), "{e}");
}

/// Functions that do not depend on the phase of vectors, with and without decompositions.
#[test]
fn gradients_do_not_depend_on_the_way() {
    let weights = matrices(1, 4, 4).select(0, 0);
    let pairs: [(&str, Function, Function); 4] = [
        (
            "eigh",
            |a| {
                let [w, v] = (a + adjoint(a)).eigh();
                (&v * w.exp().unsqueeze(-2)).matmul(adjoint(&v))
            },
            |a| {
                let h = a + adjoint(a);
                (1..24)
                    .rev()
                    .fold(h.zeros_like(), |s, k| (s + Tensor::eye_of(4, 4, DType::C128)).matmul(&h) * (1.0 / k as f64))
                    + Tensor::eye_of(4, 4, DType::C128)
            },
        ),
        (
            "svd",
            |a| {
                let [u, s, vh] = a.svd();
                (&u * s.square().unsqueeze(-2)).matmul(vh).matmul(adjoint(a))
            },
            |a| {
                let [w, v] = a.matmul(adjoint(a)).eigh();
                (&v * w.pow(1.5).unsqueeze(-2)).matmul(adjoint(&v))
            },
        ),
        (
            "full svd",
            |a| {
                let [_, _, vh] = a.narrow(0, 0, 2).svd_full();
                let rest = vh.narrow(-2, 2, 2);
                adjoint(&rest).matmul(rest)
            },
            |a| {
                let a = a.narrow(0, 0, 2);
                Tensor::eye_of(4, 4, DType::C128) - a.pinv().matmul(a)
            },
        ),
        (
            "full qr",
            |a| {
                let [q, _] = a.narrow(-1, 0, 2).qr_full();
                let rest = q.narrow(-1, 2, 2);
                rest.matmul(adjoint(&rest))
            },
            |a| {
                let a = a.narrow(-1, 0, 2);
                Tensor::eye_of(4, 4, DType::C128) - a.matmul(a.pinv())
            },
        ),
    ];
    for (what, f, g) in pairs {
        let a = (matrices(2, 4, 4).select(0, 1) * 0.4).eval().unwrap().requires_grad();
        let slope = |f: Function| {
            let loss = (f(&a) * &weights).abs().square().sum(..);
            grad(&loss, from_ref(&a)).unwrap()[0].clone()
        };
        assert_same(what, &f(&a), &g(&a), 1e-10);
        assert_same(what, &slope(f), &slope(g), 1e-8);
        let curve = |f: Function| grad(&slope(f).abs().square().sum(..), from_ref(&a)).unwrap()[0].clone();
        assert_same(what, &curve(f), &curve(g), 1e-6);
    }
}

#[test]
fn elements_move_as_pairs() {
    let z = tensor(&SAMPLES);
    let picked = Tensor::concat(&[z.flip(0), z.narrow(0, 1, 2)], 0);
    let want = [SAMPLES[4], SAMPLES[3], SAMPLES[2], SAMPLES[1], SAMPLES[0], SAMPLES[1], SAMPLES[2]];
    assert_eq!(values(&picked), want);
    let chosen = Tensor::where_(&z.real().gt(0.0), &z, 0.0).take(&Tensor::from([3i64, 1]), 0);
    assert_eq!(values(&chosen), [SAMPLES[3], C::ZERO]);
    assert_eq!(z.eq(&z.conj().conj()).to_vec::<bool>().unwrap(), [true; 5]);
    assert_eq!((&z + 1.0f32).dtype().unwrap(), DType::C128);
    assert_eq!((Tensor::zeros([2]) * C::I).dtype().unwrap(), DType::C64);
    assert_eq!(z.view_as_real().view_as_complex().to_vec::<C>().unwrap(), SAMPLES);
    assert_eq!(Tensor::from([[C::I, C::ONE]]).to_string(), "tensor([[0.+1.j, 1.+0.j]], dtype=c128)");
}

#[test]
fn functions_of_functions_take_complex_numbers() {
    let z = tensor(&SAMPLES);
    let rows = vmap(|a| Ok(vec![a[0].exp() * 2.0]), from_ref(&z)).unwrap();
    close("vmap", &values(&rows[0]), &SAMPLES.map(|z| z.exp() * 2.0), 1e-12);
    let turns = control::fori_loop(0, 3, |_, a| Ok(vec![a[0].square()]), from_ref(&z)).unwrap();
    close("loop", &values(&turns[0]), &SAMPLES.map(|z| z.powi(8)), 1e-12);
    let z = z.requires_grad();
    let y = control::checkpoint(|a| Ok(vec![(a[0].square() * a[0].conj()).abs().sum(..)]), from_ref(&z)).unwrap();
    let plain = (z.square() * z.conj()).abs().sum(..);
    let (a, b) = (grad(&y[0], from_ref(&z)).unwrap(), grad(&plain, from_ref(&z)).unwrap());
    close("checkpoint", &values(&a[0]), &values(&b[0]), 1e-12);
}

#[test]
fn what_needs_an_order_is_refused_by_name() {
    let z = tensor(&SAMPLES);
    let refused: [(&str, Tensor); 8] = [
        ("lt", z.lt(&z)),
        ("max", z.max(..)),
        ("sort", z.sort(0)[0].clone()),
        ("argmax", z.argmax(0)),
        ("floor", z.floor()),
        ("maximum", z.maximum(&z)),
        ("relu", z.relu()),
        ("var", z.var(.., 0.0)),
    ];
    for (name, y) in refused {
        let e = y.error().unwrap_or_else(|| panic!("{name} gives {y:?}")).to_string();
        assert!(e.starts_with(&format!("{name}: not defined for c128")), "{e}");
    }
    let e = z.cast(DType::F64).error().unwrap().to_string();
    assert!(e.starts_with("cast: c128 does not become f64"), "{e}");
    assert!(grad(&z.sum(..), &[z.requires_grad()]).is_err(), "a complex loss has no gradient");
}

#[test]
fn graphs_with_complex_numbers_are_written_and_read() -> Result<()> {
    let site = ir::Site::here();
    let z = ir::Value::placeholder("z", ir::Type::new(DType::C64, [2]), site);
    let y = (Tensor::from(z.clone()).exp() * C::new(0.5, -2.0)).value()?.clone();
    let graph = passes::graph_of(&[z], &[y])?;
    let text = graph.to_string();
    assert_eq!(ir::Graph::parse(&text, &talweg_ops::find)?, graph, "{text}");
    let input = Literal::from_complex(DType::C64, [2], &SAMPLES[..2]);
    let want = runtime::reference::run(&graph, from_ref(&input))?;
    let want: Vec<C> = want[0].to_complex();
    close("reference", &want, &[SAMPLES[0], SAMPLES[1]].map(|z| z.exp() * C::new(0.5, -2.0)), 1e-5);
    Ok(())
}

/// A literal with the values as real parts, and others as imaginary parts.
fn made_complex(l: &Literal) -> Literal {
    if l.dtype() != DType::F64 {
        return l.clone();
    }
    let part = |i: usize, x: f64| C::new(x, 0.3 * x.cos() - 0.1 * (i as f64).sin());
    let zs: Vec<C> = l.to_f64().into_iter().enumerate().map(|(i, x)| part(i, x)).collect();
    Literal::from_complex(DType::C128, l.shape().clone(), &zs)
}

/// The sum of |y|² over all results, weighted.
fn length(ys: &[Tensor]) -> Tensor {
    let weigh = |(k, y): (usize, &Tensor)| y.abs().square().sum(..).cast(DType::F64) * (1.0 + k as f64);
    ys.iter().enumerate().map(weigh).sum()
}

#[test]
fn ops_with_several_results_give_all_of_them_or_refuse() -> Result<()> {
    let mut defined = Vec::new();
    for op in talweg_ops::table() {
        for (i, case) in (op.cases)().iter().enumerate() {
            // Graphs inside an op have the types they were traced with.
            let has_graph = case.attrs.iter().any(|(_, a)| matches!(a, ir::Attr::Graph(_)));
            let reals: Vec<Tensor> = case.inputs.iter().cloned().map(Tensor::from).collect();
            let by = |xs: &[Tensor]| Tensor::apply(op, &xs.iter().collect::<Vec<_>>(), case.attrs.clone()).into_vec();
            let real = by(&reals);
            if real.len() < 2 || has_graph {
                continue;
            }
            let what = format!("{} case {i}", op.name);
            let literals: Vec<Literal> = case.inputs.iter().map(made_complex).collect();
            let zs: Vec<Tensor> = literals.iter().cloned().map(Tensor::from).collect();
            let got = by(&zs);
            if let Some(e) = got[0].error() {
                assert!(e.kind == talweg_ops::ErrorKind::DType, "{what}: {e}");
                continue;
            }
            defined.push(op.name);
            assert_eq!(got.len(), real.len(), "{what}: results");
            for (y, r) in got.iter().zip(&real) {
                assert_eq!(y.shape()?, r.shape()?, "{what}");
                y.literal()?;
            }
            // A batch of two, and the gradient against a difference along a direction.
            let pairs: Vec<Tensor> = zs.iter().map(|z| Tensor::stack(&[z.clone(), z.clone()], 0)).collect();
            let batch = vmap(|a| Ok(by(a)), &pairs)?;
            assert_eq!(batch.len(), real.len(), "{what}: batched results");
            for (b, y) in batch.iter().zip(&got) {
                assert_same(&what, &b.select(0, 1), y, 1e-9);
            }
            if !case.smooth || matches!(op.grad, ir::Grad::Zero | ir::Grad::Missing(_)) {
                continue;
            }
            let Some(at) = zs.iter().position(|z| z.dtype().is_ok_and(|d| d.is_complex())) else { continue };
            let z = zs[at].requires_grad();
            let with = |z: Tensor| {
                let mut zs = zs.clone();
                zs[at] = z;
                length(&by(&zs))
            };
            let g = grad(&with(z.clone()), from_ref(&z))?.swap_remove(0);
            let direction = (z.detach() * C::new(0.7, 0.4)).eval()?.clone();
            let slope = (g.real() * direction.real() + g.imag() * direction.imag()).sum(..).item::<f64>()?;
            let h = 1e-5;
            let moved = |h: f64| with(z.detach() + &direction * h).item::<f64>();
            let want = (moved(h)? - moved(-h)?) / (2.0 * h);
            assert!((slope - want).abs() <= 1e-5 * want.abs().max(1.0), "{what}: slope {slope}, differences {want}");
        }
    }
    for name in ["split", "unbind", "barrier", "svd", "qr", "eigh", "slogdet"] {
        assert!(defined.contains(&name), "{name} is refused for complex numbers: {defined:?}");
    }
    Ok(())
}

#[test]
fn rows_and_pieces_of_complex_tensors_are_all_there() -> Result<()> {
    let all: Vec<C> = (0..6).map(|i| C::new(i as f64, 10.0 - i as f64)).collect();
    let z = Tensor::new([3, 2], &all).requires_grad();
    let ways: [(&str, fn(&Tensor) -> Vec<Tensor>); 4] = [
        ("unbind", |z| z.unbind(0)),
        ("split", |z| z.split(1, 0)),
        ("chunk", |z| z.chunk(3, 0)),
        ("split_sizes", |z| z.split_sizes(&[1, 2], 0)),
    ];
    for (what, f) in ways {
        let parts = f(&z);
        let flat: Vec<Tensor> = parts.iter().map(|p| p.flatten(0, -1)).collect();
        close(what, &values(&Tensor::concat(&flat, 0)), &all, 0.0);
        // Of all parts, under vmap as well.
        let weighted = |z: &Tensor| length(&f(z));
        let g = grad(&weighted(&z), from_ref(&z))?.swap_remove(0);
        let last = values(&g)[5] / all[5];
        assert!((last - 2.0 * parts.len() as f64).norm() < 1e-12, "{what}: gradient {last}");
        let batch = Tensor::stack(&[z.clone(), z.clone()], 0);
        let each = vmap(|a| Ok(vec![weighted(&a[0])]), &[batch])?.swap_remove(0);
        let one = weighted(&z).item::<f64>()?;
        assert_eq!(each.to_vec::<f64>()?, [one, one], "{what}");
    }
    assert!(Tensor::zeros([0, 2]).unbind(0).is_empty());
    assert!(z.split(5, 4)[0].error().is_some() && z.unbind(3)[0].error().is_some());
    Ok(())
}

/// Special values as C's Annex G and the array API want them: real and imaginary part, those of the
/// result; `None` is a NaN.
type Special = (f64, f64, Option<f64>, Option<f64>);

#[test]
fn infinities_and_zeros_follow_annex_g() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let tables: [(&str, Function, &[Special]); 12] = [
        (
            "exp",
            Tensor::exp,
            &[
                (inf, 0.0, Some(inf), Some(0.0)),
                (-inf, inf, Some(0.0), Some(0.0)),
                (inf, inf, Some(inf), None),
                (-inf, nan, Some(0.0), Some(0.0)),
                (inf, nan, Some(inf), None),
                (nan, 0.0, None, Some(0.0)),
                (-inf, 2.0, Some(-0.0), Some(0.0)),
            ],
        ),
        (
            "expm1",
            Tensor::expm1,
            &[
                (inf, 0.0, Some(inf), Some(0.0)),
                (-inf, inf, Some(-1.0), Some(0.0)),
                (-inf, 2.0, Some(-1.0), Some(0.0)),
                (inf, inf, Some(inf), None),
                (nan, 0.0, None, Some(0.0)),
            ],
        ),
        (
            "cosh",
            Tensor::cosh,
            &[
                (800.0, 0.0, Some(inf), Some(0.0)),
                (0.0, inf, None, Some(0.0)),
                (inf, 0.0, Some(inf), Some(0.0)),
                (inf, inf, Some(inf), None),
                (inf, nan, Some(inf), None),
                (nan, 0.0, None, Some(0.0)),
            ],
        ),
        (
            "sinh",
            Tensor::sinh,
            &[
                (0.0, inf, Some(0.0), None),
                (inf, 0.0, Some(inf), Some(0.0)),
                (inf, inf, Some(inf), None),
                (nan, 0.0, None, Some(0.0)),
                (-inf, 1.0, Some(-inf), Some(inf)),
            ],
        ),
        (
            "tanh",
            Tensor::tanh,
            &[
                (inf, inf, Some(1.0), Some(0.0)),
                (inf, nan, Some(1.0), Some(0.0)),
                (1.0, inf, None, None),
                (1e15, inf, None, None),
                (0.0, inf, Some(0.0), None),
                (nan, 0.0, None, Some(0.0)),
                (-inf, 1.0, Some(-1.0), Some(0.0)),
            ],
        ),
        (
            "acos",
            Tensor::acos,
            &[
                (1.0, inf, Some(FRAC_PI_2), Some(-inf)),
                (-inf, 1.0, Some(PI), Some(-inf)),
                (inf, 1.0, Some(0.0), Some(-inf)),
                (-inf, inf, Some(3.0 * FRAC_PI_4), Some(-inf)),
                (inf, inf, Some(FRAC_PI_4), Some(-inf)),
                (inf, nan, None, Some(-inf)),
                (nan, inf, None, Some(-inf)),
                (0.0, nan, Some(FRAC_PI_2), None),
            ],
        ),
        ("asin", Tensor::asin, &[(inf, 0.0, Some(FRAC_PI_2), Some(inf)), (0.0, inf, Some(0.0), Some(inf))]),
        (
            "acosh",
            Tensor::acosh,
            &[
                (1.0, inf, Some(inf), Some(FRAC_PI_2)),
                (-inf, 1.0, Some(inf), Some(PI)),
                (inf, 1.0, Some(inf), Some(0.0)),
                (-inf, inf, Some(inf), Some(3.0 * FRAC_PI_4)),
                (inf, inf, Some(inf), Some(FRAC_PI_4)),
                (nan, inf, Some(inf), None),
                (0.0, nan, None, Some(FRAC_PI_2)),
            ],
        ),
        (
            "asinh",
            Tensor::asinh,
            &[
                (1.0, inf, Some(inf), Some(FRAC_PI_2)),
                (inf, 1.0, Some(inf), Some(0.0)),
                (inf, inf, Some(inf), Some(FRAC_PI_4)),
                (inf, nan, Some(inf), None),
                (nan, 0.0, None, Some(0.0)),
            ],
        ),
        (
            "atanh",
            Tensor::atanh,
            &[
                (1.0, 0.0, Some(inf), Some(0.0)),
                (1.0, inf, Some(0.0), Some(FRAC_PI_2)),
                (inf, 1.0, Some(0.0), Some(FRAC_PI_2)),
                (inf, inf, Some(0.0), Some(FRAC_PI_2)),
                (inf, nan, Some(0.0), None),
                (nan, inf, Some(0.0), Some(FRAC_PI_2)),
                (0.0, nan, Some(0.0), None),
            ],
        ),
        ("atan", Tensor::atan, &[(inf, 0.0, Some(FRAC_PI_2), Some(0.0)), (0.0, inf, Some(FRAC_PI_2), Some(0.0))]),
        (
            "sign",
            Tensor::sign,
            &[
                (inf, 3.0, Some(1.0), Some(0.0)),
                (0.0, -inf, Some(0.0), Some(-1.0)),
                (-0.0, 0.0, Some(0.0), Some(0.0)),
                (nan, 1.0, None, None),
            ],
        ),
    ];
    for (name, f, cases) in tables {
        for &(re, im, a, b) in cases {
            let got = values(&f(&tensor(&[C::new(re, im)])))[0];
            let is_same = |got: f64, want: Option<f64>| match want {
                None => got.is_nan(),
                Some(w) => got == w || (got - w).abs() < 1e-15 * w.abs(),
            };
            assert!(is_same(got.re, a) && is_same(got.im, b), "{name}({re} + {im} i) is {got}, not {a:?} + {b:?} i");
        }
    }
}

#[test]
fn inverse_tangents_keep_their_digits_near_their_poles() {
    // mpmath with 40 digits: atan(1.04 i) = π/2 + 1.966… i by the side of +0, atanh(-1.04 + 0.001 i).
    let z = values(&tensor(&[C::new(0.0, 1.04)]).atan())[0];
    assert!((z.im - 0.5 * (2.04f64 / 0.04).ln()).abs() < 4e-16 * 2.0, "{z}");
    for x in [1.04f64, 0.97, -1.04, -0.97, 1.0000001] {
        let y = 0.001f64;
        // |1 + z|² / |1 - z|² exactly enough.
        let want = 0.25 * (((1.0 + x) * (1.0 + x) + y * y) / ((1.0 - x) * (1.0 - x) + y * y)).ln();
        let got = values(&tensor(&[C::new(x, y)]).atanh())[0].re;
        assert!((got - want).abs() < 1e-14 * want.abs(), "{x}: {got} instead of {want}");
    }
    // Far away the real part does not vanish early.
    let far = values(&tensor(&[C::new(1e200, 1e200)]).atanh())[0];
    assert!((far.re - 5e-201).abs() < 1e-215, "{far}");
    // At 0 the slope is 1.
    let z = tensor(&[C::ZERO]).requires_grad();
    assert_eq!(values(&grad(&z.atanh().real().sum(..), from_ref(&z)).unwrap()[0]), [C::ONE]);
}
