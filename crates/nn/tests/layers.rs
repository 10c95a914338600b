//! Layers have PyTorch's parameter names, results and gradients (`data/layers.txt`, written by
//! `data/layers.py`).

use cpu as _;
use talweg_nn::*;
use tensor::loss::{CrossEntropyOptions, Reduction};
use tensor::nn::{AttentionOptions, AvgPoolOptions, ConvOptions, MaxPoolOptions};
use tensor::{DType, Tensor, generator::next_key, grad};

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

/// Inputs that number nodes or rows, and have no gradient.
fn is_whole(input: &str) -> bool {
    matches!(input, "edges" | "rows")
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
        .map(|(n, t)| if is_whole(&n) { (n, t.cast(DType::I64)) } else { (n, t.requires_grad()) })
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
    wanted.extend(inputs.into_iter().filter(|i| !is_whole(&i.0)));
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
    let two = RecurrentOptions { layers: 2, batch_first: true, ..RecurrentOptions::default() };
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
    let options = RecurrentOptions { layers: 2, batch_first: true, ..RecurrentOptions::default() };
    let lengths = Tensor::from([2i64, 5, 3]);
    let lstm = Lstm::with(2, 4, options.clone()).unwrap();
    check("lstm_lengths", &lstm, |x| joined(lstm.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
    let gru = Gru::with(2, 4, options).unwrap();
    check("gru_lengths", &gru, |x| joined(gru.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
    let e = gru.run_lengths(&Tensor::ones([2, 5, 2]), &lengths, None).unwrap_err().to_string();
    assert!(e.contains("lengths must be i64[2], not i64[3]"), "{e}");
}

#[test]
fn both_ways() {
    let one = RecurrentOptions { bidirectional: true, ..RecurrentOptions::default() };
    let two = RecurrentOptions { layers: 2, batch_first: true, ..one.clone() };
    let lstm = Lstm::with(2, 4, one).unwrap();
    check("lstm_both", &lstm, |x| joined(lstm.run(&x[0], Some(&x[1..])).unwrap()));
    let gru = Gru::with(2, 4, two.clone()).unwrap();
    check("gru_both", &gru, |x| joined(gru.run(&x[0], Some(&x[1..])).unwrap()));
    let lengths = Tensor::from([2i64, 5, 3]);
    let rnn = Rnn::with(2, 4, two.clone()).unwrap();
    check("rnn_both_lengths", &rnn, |x| joined(rnn.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
    let lstm = Lstm::with(2, 4, two).unwrap();
    check("lstm_both_lengths", &lstm, |x| joined(lstm.run_lengths(&x[0], &lengths, Some(&x[1..])).unwrap()));
}

#[test]
fn dropout_between_recurrent_layers() {
    tensor::manual_seed(5);
    let options = RecurrentOptions { layers: 2, dropout: 0.5, ..RecurrentOptions::default() };
    let gru = Gru::with(2, 4, options.clone()).unwrap();
    let x = Tensor::randn([5, 3, 2]);
    let off = || (gru.forward(&x) - gru.forward(&x)).abs().max(..).item::<f32>().unwrap();
    assert!(off() > 1e-3, "two draws");
    gru.train(false);
    assert_eq!(off(), 0.0, "no draws in inference");
    // The first layer is not touched: everything it hands on is dropped, so the second sees zeros.
    let all = Gru::with(2, 4, RecurrentOptions { dropout: 1.0, ..options.clone() }).unwrap();
    let (_, state) = all.run(&x, None).unwrap();
    assert!(state[0].select(0, 0).abs().max(..).item::<f32>().unwrap() > 0.01);
    let (_, other) = all.run(&Tensor::zeros([5, 3, 2]), None).unwrap();
    assert_eq!(state[0].select(0, 1).to_vec::<f32>().unwrap(), other[0].select(0, 1).to_vec::<f32>().unwrap());
    let e = Gru::with(2, 4, RecurrentOptions { layers: 1, ..options }).unwrap_err().to_string();
    assert!(e.contains("dropout of 0.5 between 1 layers"), "{e}");
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
fn transformer_stacks() {
    let norm = || LayerNorm::new(&[4]).unwrap();
    let first = TransformerOptions { norm_first: true, ..options() };
    let m = TransformerEncoder::new(4, 2, 2, first).unwrap().with_norm(norm());
    check("encoder_stack", &m, |x| vec![m.forward(&x[0])]);
    let m = TransformerDecoder::new(4, 2, 2, options()).unwrap().with_norm(norm());
    check("decoder_stack", &m, |x| vec![m.forward(&x[0], &x[1], causal(), AttentionOptions::default())]);
}

#[test]
fn dropout_of_attention_weights() {
    tensor::manual_seed(6);
    let (q, k) = (Tensor::randn([2, 3, 4]), Tensor::randn([2, 5, 4]));
    // With the identity as values, the results are the weights.
    let v = Tensor::eye(5).broadcast_to([2, 5, 5]);
    let weights = q.attention(&k, &v, AttentionOptions::default()).to_vec::<f32>().unwrap();
    let dropped = |p: f64| AttentionOptions { dropout: Some((p, next_key())), ..AttentionOptions::default() };
    let some = q.attention(&k, &v, dropped(0.25)).to_vec::<f32>().unwrap();
    for (w, s) in weights.iter().zip(&some) {
        assert!(*s == 0.0 || (w / 0.75 - s).abs() < 1e-6, "{w} became {s}");
    }
    let zeros = some.iter().filter(|s| **s == 0.0).count();
    assert!((1..20).contains(&zeros), "{zeros} of 30 dropped");
    let none = q.attention(&k, &v, dropped(0.0)).to_vec::<f32>().unwrap();
    assert!(weights.iter().zip(&none).all(|(w, n)| (w - n).abs() < 1e-6));
    let e = q.attention(&Tensor::ones([2, 5, 3]), &v, dropped(0.5)).eval().unwrap_err().to_string();
    assert!(e.starts_with("attention: "), "{e}");

    let m = MultiheadAttention::new(4, 2).unwrap().with_dropout(0.5);
    let off = || {
        let y = || m.forward(&q, &k, &k, AttentionOptions::default());
        (y() - y()).abs().max(..).item::<f32>().unwrap()
    };
    assert!(off() > 1e-3, "two draws");
    m.train(false);
    assert_eq!(off(), 0.0, "no draws in inference");
}

#[test]
fn convolutions_and_pools_of_every_rank() {
    let (max, avg) = (MaxPoolOptions::new().stride(2).padding(1), AvgPoolOptions::new().stride(2).padding(1));
    let conv = ConvOptions::new().stride(2).padding(1).groups(2);
    let layers: [(&str, Box<dyn Layer>); 15] = [
        ("max_pool1d_padded", Box::new(MaxPool1d::with(2, max.clone()))),
        ("max_pool2d_padded", Box::new(MaxPool2d::with(2, max.clone()))),
        ("max_pool3d_padded", Box::new(MaxPool3d::with(2, max))),
        ("avg_pool1d_padded", Box::new(AvgPool1d::with(2, avg.clone()))),
        ("avg_pool2d_padded", Box::new(AvgPool2d::with(2, avg.clone()))),
        ("avg_pool3d_padded", Box::new(AvgPool3d::with(2, avg))),
        ("adaptive_max_pool1d", Box::new(AdaptiveMaxPool1d::new(2))),
        ("adaptive_max_pool2d", Box::new(AdaptiveMaxPool2d::new(2))),
        ("adaptive_max_pool3d", Box::new(AdaptiveMaxPool3d::new(2))),
        ("adaptive_avg_pool1d", Box::new(AdaptiveAvgPool1d::new(2))),
        ("adaptive_avg_pool2d", Box::new(AdaptiveAvgPool2d::new(2))),
        ("adaptive_avg_pool3d", Box::new(AdaptiveAvgPool3d::new(2))),
        ("conv1d", Box::new(Conv1d::with(4, 2, [2], conv.clone()).unwrap())),
        ("conv2d", Box::new(Conv2d::with(4, 2, [2, 2], conv.clone()).unwrap())),
        ("conv3d", Box::new(Conv3d::with(4, 2, [2, 2, 2], conv).unwrap())),
    ];
    for (case, m) in layers {
        check(case, &m, |x| vec![m.forward(&x[0])]);
    }
}

#[test]
fn linear_maps_norms_and_tables() {
    let layers: [(&str, Box<dyn Layer>); 5] = [
        ("linear", Box::new(Linear::new(3, 2).unwrap())),
        ("layer_norm", Box::new(LayerNorm::new(&[3, 2]).unwrap())),
        ("rms_norm", Box::new(RmsNorm::new(&[3]).unwrap())),
        ("group_norm", Box::new(GroupNorm::new(2, 4).unwrap())),
        ("embedding", Box::new(Embedding::new(2, 3).unwrap())),
    ];
    for (case, m) in layers {
        check(case, &m, |x| vec![m.forward(&x[0])]);
    }
    let m = Bilinear::new(2, 3, 4).unwrap();
    check("bilinear", &m, |x| vec![m.forward(&x[0], &x[1])]);
    let m = LinearCrossEntropyLoss::new(4, 3).unwrap();
    check("linear_cross_entropy", &m, |x| vec![m.forward(&x[0], &Tensor::from([1i64, 2, 0])).reshape([1])]);
    let options = CrossEntropyOptions { reduction: Reduction::None, label_smoothing: 0.1, ..Default::default() };
    let m = LinearCrossEntropyLoss::with(4, 3, &[2], true, options).unwrap();
    let labels = Tensor::from([[1i64, 0], [2, 1], [0, 2]]);
    check("linear_cross_entropy_outputs", &m, |x| vec![m.forward(&x[0], &labels)]);
    for (case, m) in [("batch_norm1d", BatchNorm::new(3).unwrap()), ("batch_norm2d", BatchNorm::new(2).unwrap())] {
        check(case, &m, |x| {
            let y = m.forward(&x[0]);
            m.train(false);
            vec![y, m.forward(&x[0])]
        });
    }
}

#[test]
fn transposed_convolutions_and_pools() {
    let m = ConvTranspose1d::with(2, 3, [3], ConvOptions::new().stride(2)).unwrap();
    check("conv_transpose1d", &m, |x| vec![m.forward(&x[0])]);
    let grouped = ConvOptions::new().stride(2).padding(1).output_padding(1).groups(2);
    let m = ConvTranspose2d::with(4, 2, [3, 2], grouped).unwrap();
    check("conv_transpose2d", &m, |x| vec![m.forward(&x[0])]);
    let m = ConvTranspose3d::without_bias(1, 2, [2, 2, 2], ConvOptions::new()).unwrap();
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
