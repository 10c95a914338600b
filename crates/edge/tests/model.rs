//! A bundle runs as the model does.

use cpu::{Compiled, needs};
use ir::Literal;
use talweg_edge::{Model, bundle};
use tensor::Tensor;
use tensor::nn::{ConvOptions, MaxPoolOptions};

/// A bundle that lives as long as the test, on a boundary of 64 bytes.
fn lasting(bytes: &[u8]) -> &'static [u8] {
    let memory = Box::leak(Box::new(ir::Bytes::copy_of(bytes)));
    &memory.as_slice()[..bytes.len()]
}

fn wave(shape: &[usize], step: f32) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * step).sin()).collect();
    Tensor::from(Literal::new(shape, &values).unwrap())
}

/// A small convolutional net: what is read, moved and computed in each of the usual ways.
fn net(x: &Tensor) -> Tensor {
    let two = |t: &Tensor| t.max_pool2d(2, MaxPoolOptions::default());
    let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let bias = |n: usize| wave(&[n, 1, 1], 0.3);
    let h = two(&(x.conv2d(&wave(&[8, 1, 3, 3], 0.7), None, same()) + bias(8)).relu());
    let h = two(&(h.conv2d(&wave(&[16, 8, 3, 3], 0.9), None, same()) + bias(16)).relu());
    let h = h.flatten(1, -1).matmul(&(wave(&[784, 10], 1.1) * 0.05)) + wave(&[10], 0.2);
    h.softmax(-1)
}

fn exported() -> model::Model {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("net");
    let example = wave(&[2, 1, 28, 28], 0.01);
    model::Export::new("net")
        .input("image", &example, &["batch", "", "", ""])
        .write(&dir, |x| Ok(vec![net(&x[0])]))
        .unwrap();
    model::Model::load(&dir).unwrap()
}

fn built(model: &model::Model, sizes: &[usize]) -> (Model, Vec<String>) {
    let graph = tensor::engine().optimize(&model.frozen(sizes).unwrap()).unwrap();
    let compiled = Compiled::new(graph).unwrap();
    let names = needs(&compiled).unwrap();
    let bytes = bundle("net", &["image".into()], &["output".into()], compiled.plan()).unwrap();
    (Model::new(lasting(&bytes)).unwrap(), names.into_iter().collect())
}

#[test]
fn a_bundle_computes_what_the_model_does() {
    let model = exported();
    for batch in [1, 3] {
        let (built, names) = built(&model, &[batch]);
        let x = wave(&[batch, 1, 28, 28], 0.013).literal().unwrap();
        let want = model.run(std::slice::from_ref(&x)).unwrap().remove(0);
        let mut y = vec![0u8; batch * 40];
        built.run(&[x.bytes()], &mut [&mut y]).unwrap();
        let y = Literal::from_bytes(ir::DType::F32, [batch, 10], &y).unwrap();
        for (a, b) in y.to_f64().iter().zip(want.to_f64()) {
            assert!((a - b).abs() <= 1e-6, "{a} {b}");
        }
        for name in ["conv", "matmul", "f32", "exp({0})"] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|n| n == "sin({0})" || n == "f64"), "{names:?}");
    }
}

#[test]
fn wrong_sizes_are_named() {
    let (built, _) = built(&exported(), &[1]);
    let e = built.run(&[&[0; 8]], &mut [&mut [0; 40]]).unwrap_err();
    assert!(e.message.contains("image f32[1, 1, 28, 28] of 3136 bytes"), "{e}");
}

#[test]
fn a_bundle_that_is_cut_off_is_refused() {
    let model = exported();
    let graph = tensor::engine().optimize(&model.frozen(&[1]).unwrap()).unwrap();
    let compiled = Compiled::new(graph).unwrap();
    let bytes = bundle("net", &["image".into()], &["output".into()], compiled.plan()).unwrap();
    for cut in (0..bytes.len()).step_by(61) {
        assert!(Model::new(lasting(&bytes[..cut])).is_err(), "cut at {cut}");
    }
}
