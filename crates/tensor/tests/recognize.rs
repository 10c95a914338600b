//! Attention that a program writes out of other ops runs as the op, with the same numbers.

use cpu as _;
use ops::nn::AttentionOptions;
use talweg_tensor::{Tensor, jit, vjp};

const SHAPE: [usize; 4] = [2, 3, 40, 16];

fn wave(shape: &[usize], seed: f64) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::new(shape, &(0..n).map(|i| ((i as f64 + seed) * 0.37 + seed).sin() as f32).collect::<Vec<_>>())
}

/// Query i sees keys 0 to i.
fn causal() -> Tensor {
    Tensor::ones([SHAPE[2], SHAPE[2]]).tril(0).gt(0.0)
}

/// Attention by hand: the scores are masked by `mask`, made to weights by `softmax`.
fn written(a: &[Tensor], mask: impl Fn(Tensor) -> Tensor, softmax: impl Fn(Tensor) -> Tensor) -> Tensor {
    let scores = a[0].matmul(a[1].transpose(-2, -1)) / (SHAPE[3] as f64).sqrt();
    softmax(mask(scores)).matmul(&a[2])
}

fn by_hand(x: Tensor) -> Tensor {
    let e = (&x - x.max_keep(-1)).exp();
    &e / e.sum_keep(-1)
}

fn assert_close(a: &Tensor, b: &Tensor) {
    let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    assert_eq!(a.len(), b.len());
    let off = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(off < 2e-5, "{off}");
}

fn operands() -> Vec<Tensor> {
    (1..=4).map(|i| wave(&SHAPE, i as f64)).collect()
}

#[test]
fn written_attention_runs_as_the_op() {
    type Make = fn(&[Tensor]) -> Tensor;
    let forms: [(&str, bool, Make); 4] = [
        ("plain", false, |a| written(a, |s| s, |s| s.softmax(-1))),
        ("by hand", false, |a| written(a, |s| s, by_hand)),
        ("masked_fill", true, |a| written(a, |s| s.masked_fill(&causal().logical_not(), f64::NEG_INFINITY), by_hand)),
        ("where", true, |a| written(a, |s| Tensor::where_(&causal(), &s, f64::NEG_INFINITY), |s| s.softmax(-1))),
    ];
    let args = operands();
    let refs: Vec<&Tensor> = args[..3].iter().collect();
    for (name, causal, make) in forms {
        let f = jit(move |a: &[Tensor]| Ok(vec![make(a)]));
        let text = f.explain(&refs).unwrap();
        assert!(text.contains("call: attention "), "{name}: {text}");
        assert!(!text.contains("matmul"), "{name}: {text}");
        let op = args[0].attention(&args[1], &args[2], AttentionOptions { causal, ..Default::default() });
        assert_close(&f.call(&refs).unwrap()[0], &op);
    }
}

#[test]
fn its_gradients_do_too() {
    let args = operands();
    let refs: Vec<&Tensor> = args.iter().collect();
    for masked in [false, true] {
        let mask = move |s: Tensor| {
            if masked { s.masked_fill(&causal().logical_not(), f64::NEG_INFINITY) } else { s }
        };
        let f = jit(move |a: &[Tensor]| {
            let y = written(a, mask, |s| s.softmax(-1));
            let mut all = vjp(std::slice::from_ref(&y), &a[3..], &a[..3])?;
            all.push(y);
            Ok(all)
        });
        let text = f.explain(&refs).unwrap();
        assert!(text.contains("call: attention ") && text.contains("call: attention_grad "), "{text}");
        assert!(!text.contains("matmul"), "{text}");
        let op = jit(move |a: &[Tensor]| {
            let y = a[0].attention(&a[1], &a[2], AttentionOptions { causal: masked, ..Default::default() });
            let mut all = vjp(std::slice::from_ref(&y), &a[3..], &a[..3])?;
            all.push(y);
            Ok(all)
        });
        for (a, b) in f.call(&refs).unwrap().iter().zip(op.call(&refs).unwrap()) {
            assert_close(a, &b);
        }
    }
}

#[test]
fn other_programs_are_left_alone() {
    let args = operands();
    let refs: Vec<&Tensor> = args[..3].iter().collect();
    // The weights are their own result.
    let weights = jit(|a: &[Tensor]| {
        let w = (a[0].matmul(a[1].t()) * 0.25).softmax(-1);
        Ok(vec![w.matmul(&a[2]), w])
    });
    assert!(!weights.explain(&refs).unwrap().contains("attention"));
    // Along another axis it is something else.
    let other = jit(|a: &[Tensor]| Ok(vec![(a[0].matmul(a[1].t())).softmax(-2).matmul(&a[2])]));
    assert!(!other.explain(&refs).unwrap().contains("attention"));
    // Without the greatest score taken away, large scores overflow; they go on doing so.
    let plain = jit(|a: &[Tensor]| {
        let e = (a[0].matmul(a[1].t()) * 100.0).exp();
        Ok(vec![(&e / e.sum_keep(-1)).matmul(&a[2])])
    });
    assert!(!plain.explain(&refs).unwrap().contains("attention"));
    assert!(plain.call(&refs).unwrap()[0].to_vec::<f32>().unwrap().iter().any(|x| x.is_nan()));
}

#[test]
fn a_query_that_sees_nothing_stays_nan() {
    let args = operands();
    let f = jit(|a: &[Tensor]| {
        let rows = Tensor::iota(SHAPE[2], talweg_tensor::DType::I64).reshape([SHAPE[2], 1]);
        Ok(vec![written(a, |s| s.masked_fill(&rows.lt(1), f64::NEG_INFINITY), |s| s.softmax(-1))])
    });
    let refs: Vec<&Tensor> = args[..3].iter().collect();
    assert!(f.explain(&refs).unwrap().contains("attention"));
    let y = f.call(&refs).unwrap()[0].to_vec::<f32>().unwrap();
    for (i, x) in y.iter().enumerate() {
        assert_eq!(x.is_nan(), i / SHAPE[3] % SHAPE[2] < 1, "element {i}");
    }
}
