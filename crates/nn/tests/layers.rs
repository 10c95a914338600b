//! Layers have PyTorch's parameter names, results and gradients (`data/layers.txt`, written by
//! `data/layers.py`).

use talweg_nn::{
    Activation, AvgPool2d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Gat, Gcn, Gru, Layer, Lstm, MaxPool2d,
    Module, MultiheadAttention, RecurrentOptions, Rnn, TransformerDecoderLayer, TransformerEncoderLayer,
    TransformerOptions,
};
use tensor::nn::{AttentionOptions, ConvOptions, MaxPoolOptions};
use tensor::{DType, Tensor, grad};

const TOLERANCE: f64 = 2e-5;

/// Names and values of one kind for a case.
fn recorded(case: &str, kind: &str) -> Vec<(String, Tensor)> {
    let read = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let shape: Vec<usize> = words[3].split('x').map(|d| d.parse().unwrap()).collect();
        let values: Vec<f32> = words[4..].iter().map(|w| w.parse().unwrap()).collect();
        (words[0] == case && words[1] == kind).then(|| (words[2].to_string(), Tensor::new(shape, &values)))
    };
    include_str!("data/layers.txt").lines().filter_map(read).collect()
}

#[track_caller]
fn same(what: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.shape().unwrap(), want.shape().unwrap(), "{what}");
    let off = (got - want).abs().max(..).item::<f64>().unwrap();
    assert!(off <= TOLERANCE, "{what}: off by {off:e}");
}

/// Gives the module the recorded parameters, and compares outputs and all gradients.
#[track_caller]
fn check(case: &str, module: &dyn Module, f: impl Fn(&[Tensor]) -> Vec<Tensor>) {
    let mut own = module.named_parameters();
    let mut given = recorded(case, "param");
    own.sort_by(|a, b| a.0.cmp(&b.0));
    given.sort_by(|a, b| a.0.cmp(&b.0));
    let names = |l: &[(String, Tensor)]| l.iter().map(|p| p.0.clone()).collect::<Vec<_>>();
    assert_eq!(own.iter().map(|p| p.0.clone()).collect::<Vec<_>>(), names(&given), "{case}");
    for ((name, v), (_, t)) in own.iter().zip(&given) {
        assert_eq!(v.shape(), t.shape().unwrap(), "{case} {name}");
        v.assign(t).unwrap();
    }
    let inputs: Vec<(String, Tensor)> = recorded(case, "input")
        .into_iter()
        .map(|(n, t)| if n == "edges" { (n, t.cast(DType::I64)) } else { (n, t.requires_grad()) })
        .collect();
    let outputs = f(&inputs.iter().map(|i| i.1.clone()).collect::<Vec<_>>());
    let want = recorded(case, "output");
    assert!(!want.is_empty(), "{case} is not recorded");
    assert_eq!(outputs.len(), want.len(), "{case}");
    let mut loss = Tensor::from(0.0f32);
    for (y, (n, w)) in outputs.iter().zip(&want) {
        same(&format!("{case} output {n}"), y, w);
        let weights: Vec<f32> = (1..=y.count().unwrap()).map(|i| (i % 10) as f32 / 10.0).collect();
        loss = loss + (y * Tensor::new(y.shape().unwrap(), &weights)).sum(..);
    }
    let mut wanted: Vec<(String, Tensor)> = own.iter().map(|(n, v)| (n.clone(), v.tensor())).collect();
    wanted.extend(inputs.into_iter().filter(|i| i.0 != "edges"));
    let grads = grad(&loss, &wanted.iter().map(|w| w.1.clone()).collect::<Vec<_>>()).unwrap();
    let all = [recorded(case, "grad_param"), recorded(case, "grad_input")].concat();
    assert_eq!(all.len(), grads.len(), "{case}");
    for ((name, _), g) in wanted.iter().zip(&grads) {
        let (_, want) = all.iter().find(|a| a.0 == *name).unwrap();
        same(&format!("{case} gradient of {name}"), g, want);
    }
}

fn joined((y, state): (Tensor, Vec<Tensor>)) -> Vec<Tensor> {
    [vec![y], state].concat()
}

#[test]
fn recurrent_layers() {
    let two = RecurrentOptions { layers: 2, batch_first: true, bias: true };
    let rnn = Rnn::new(2, 4).unwrap();
    check("rnn", &rnn, |x| joined(rnn.run(&x[0], Some(&x[1..])).unwrap()));
    let gru = Gru::with(2, 4, two.clone()).unwrap();
    check("gru", &gru, |x| joined(gru.run(&x[0], Some(&x[1..])).unwrap()));
    let lstm = Lstm::new(2, 4).unwrap();
    check("lstm", &lstm, |x| joined(lstm.run(&x[0], Some(&x[1..])).unwrap()));
    let lstm = Lstm::with(2, 4, RecurrentOptions { bias: false, ..two }).unwrap();
    check("lstm_stacked", &lstm, |x| joined(lstm.run(&x[0], Some(&x[1..])).unwrap()));
}

#[test]
fn sequences_of_unequal_length() {
    let options = RecurrentOptions { layers: 2, batch_first: true, bias: true };
    let lengths = Tensor::from([2i64, 5, 3]);
    let lstm = Lstm::with(2, 4, options.clone()).unwrap();
    check("lstm_lengths", &lstm, |x| joined(lstm.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
    let gru = Gru::with(2, 4, options).unwrap();
    check("gru_lengths", &gru, |x| joined(gru.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
    let e = gru.run_lengths(&Tensor::ones([2, 5, 2]), &lengths, None).unwrap_err().to_string();
    assert!(e.contains("lengths must be i64[2], not i64[3]"), "{e}");
}

#[test]
fn a_state_of_the_wrong_shape_is_named() {
    let lstm = Lstm::new(2, 4).unwrap();
    let (x, h) = (Tensor::ones([5, 3, 2]), Tensor::zeros([1, 2, 4]));
    let e = lstm.run(&x, Some(&[h.clone(), h.clone()])).unwrap_err().to_string();
    assert!(e.contains("must be [1, 3, 4], not [1, 2, 4]"), "{e}");
    let e = lstm.run(&x, Some(&[h])).unwrap_err().to_string();
    assert!(e.contains("consists of 2 tensors, not 1"), "{e}");
    assert!(MultiheadAttention::new(5, 2).unwrap_err().to_string().contains("2 heads do not divide"));
}

fn options() -> TransformerOptions {
    TransformerOptions { inner: 6, dropout: 0.0, ..TransformerOptions::default() }
}
fn causal() -> AttentionOptions {
    AttentionOptions { causal: true, ..AttentionOptions::default() }
}

#[test]
fn attention_layers() {
    let m = MultiheadAttention::new(4, 2).unwrap();
    check("attention", &m, |x| vec![m.forward(&x[0], &x[1], &x[2], AttentionOptions::default())]);
    let m = TransformerEncoderLayer::new(4, 2, options()).unwrap();
    check("encoder", &m, |x| vec![m.forward(&x[0])]);
    let gelu = TransformerOptions { norm_first: true, activation: Activation::new("gelu", Tensor::gelu), ..options() };
    let m = TransformerEncoderLayer::new(4, 2, gelu).unwrap();
    check("encoder_first", &m, |x| vec![m.run(&x[0], causal())]);
    let m = TransformerDecoderLayer::new(4, 2, options()).unwrap();
    check("decoder", &m, |x| vec![m.forward(&x[0], &x[1], causal(), AttentionOptions::default())]);
}

#[test]
fn transposed_convolutions_and_pools() {
    let m = ConvTranspose1d::with(2, 3, [3], true, ConvOptions::new().stride(2)).unwrap();
    check("conv_transpose1d", &m, |x| vec![m.forward(&x[0])]);
    let grouped = ConvOptions::new().stride(2).padding(1).output_padding(1).groups(2);
    let m = ConvTranspose2d::with(4, 2, [3, 2], true, grouped).unwrap();
    check("conv_transpose2d", &m, |x| vec![m.forward(&x[0])]);
    let m = ConvTranspose3d::with(1, 2, [2, 2, 2], false, ConvOptions::new()).unwrap();
    check("conv_transpose3d", &m, |x| vec![m.forward(&x[0])]);
    let m = MaxPool2d::with(3, MaxPoolOptions::new().stride(2).padding(1));
    check("max_pool2d", &m, |x| vec![m.forward(&x[0])]);
    let m = AvgPool2d::new(2);
    check("avg_pool2d", &m, |x| vec![m.forward(&x[0])]);
}

#[test]
fn graph_layers() {
    let m = Gcn::new(3, 2).unwrap();
    check("gcn", &m, |x| vec![m.forward(&x[0], &x[1])]);
    let m = Gat::new(3, 2, 2).unwrap();
    check("gat", &m, |x| vec![m.forward(&x[0], &x[1])]);
    let m = Gat::averaged(3, 2, 2).unwrap();
    check("gat_averaged", &m, |x| vec![m.forward(&x[0], &x[1])]);
    let e = m.forward(&Tensor::ones([3, 3]), &Tensor::ones([2, 4])).eval().unwrap_err().to_string();
    assert!(e.contains("edges must be i64[2, E]"), "{e}");
}
