//! Every sample of every op in the table, in every type it takes, against the slow truth.

use ir::{Buffer, DType, Graph, Literal, Meaning, Site, Type};
use runtime::{Device, reference};
use talweg_cpu::Cpu;

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 2e-5,
        DType::F16 => 1e-2,
        DType::BF16 => 6e-2,
        _ => 0.0,
    }
}

fn check(op: &'static ir::Op, inputs: &[Literal], attrs: &ir::Attrs) {
    let mut g = Graph::new();
    let slots: Vec<_> =
        inputs.iter().map(|l| g.input("", &Type::new(l.dtype(), l.shape().clone()), Site::UNKNOWN)).collect();
    // A type or attribute the op does not take is not this test's matter.
    let Ok(at) = g.push(op, &slots, attrs.clone(), Site::UNKNOWN) else { return };
    g.outputs = (0..g.node(at).outs.len()).map(|o| ir::Slot { node: at.node, out: o as u32 }).collect();
    let Ok(want) = reference::run(&g, inputs) else { return };
    let device = Cpu::new();
    let optimized = passes::optimize(&g, &|n, t| device.claims(n, t), &reference::run_node).unwrap();
    let program = device.compile(optimized).unwrap();
    let got = program.run(&mut inputs.iter().map(|l| Buffer::Host(l.paired())).collect::<Vec<_>>()).unwrap();
    let dtype = inputs.iter().map(Literal::dtype).find(|d| d.is_float()).unwrap_or(DType::F32);
    for (k, (w, g)) in want.iter().zip(&got).enumerate() {
        // Complex numbers are pairs behind the engine.
        let (w, g) = (w.paired(), g.read().unwrap());
        let what = || format!("{} of {inputs:?} {attrs:?}, output {k}", op.name);
        assert_eq!((w.dtype(), w.shape()), (g.dtype(), g.shape()), "{}", what());
        let (w, g) = (w.to_f64(), g.to_f64());
        let scale = w.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
        for (i, (w, g)) in w.iter().zip(&g).enumerate() {
            let is_close = w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= tolerance(dtype) * scale;
            assert!(is_close, "{}: element {i} is {g}, not {w}", what());
        }
    }
}

#[test]
fn every_sample_of_every_op() {
    for op in ops::table() {
        for case in (op.cases)() {
            check(op, &case.inputs, &case.attrs);
            // Decompositions and linear algebra magnify rounding; they are run as sampled.
            let is_plain = matches!(op.meaning, Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_));
            let is_kernel = matches!(op.meaning, Meaning::Kernel(_));
            let dtypes: &[DType] = if is_plain {
                &DType::ALL
            } else if is_kernel {
                &[DType::F32, DType::BF16, DType::F16]
            } else {
                &[DType::F32]
            };
            for &d in dtypes {
                let to = |l: &Literal| if l.dtype().is_float() { l.cast(d) } else { l.clone() };
                let inputs: Vec<Literal> = case.inputs.iter().map(to).collect();
                if inputs != case.inputs {
                    check(op, &inputs, &case.attrs);
                }
            }
        }
    }
}
