//! Models that were exported run as the functions they came from, at any size, and files that were changed are refused.

use cpu as _;
use ir::{DType, Literal, Result};
use std::fs;
use std::path::Path;
use talweg_model::{Axis, Dimension, Export, Model};
use tensor::{Tensor, Variable};

fn random(shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / (1u64 << 24) as f32 - 0.5
    };
    Tensor::from(Literal::generate(shape, next))
}

/// The results of the model at these inputs, beside those of the function.
fn results(
    dir: &Path,
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
) -> impl Iterator<Item = (Literal, Literal)> {
    let model = Model::load(dir).unwrap();
    let literals: Vec<Literal> = inputs.iter().map(|t| t.literal().unwrap()).collect();
    let got = model.run(&literals).unwrap();
    let want: Vec<Literal> = f(inputs).unwrap().iter().map(|t| t.literal().unwrap()).collect();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(&want) {
        assert_eq!((g.dtype(), g.shape()), (w.dtype(), w.shape()));
    }
    got.into_iter().zip(want)
}

/// The model at these inputs gives what the function gives.
fn agrees(dir: &Path, f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    results(dir, f, inputs).for_each(|(g, w)| assert_eq!(g.bytes(), w.bytes()));
}

/// The same but for rounding: sums are added up in another order where they are fused in another way.
fn nearly_agrees(dir: &Path, f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) {
    for (g, w) in results(dir, f, inputs) {
        let is_near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * b.abs().max(0.1);
        assert!(g.to_f64().into_iter().zip(w.to_f64()).all(is_near), "{g:?}\n{w:?}");
    }
}

#[test]
fn weights_of_convolutions_are_packed_once_for_all_batch_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("conv");
    let w = Variable::new("w", random(&[32, 32, 3, 3], 1)).unwrap();
    let f = |x: &[Tensor]| Ok(vec![x[0].conv2d(&w.tensor(), None, tensor::nn::ConvOptions::default()).relu()]);
    let example = random(&[1, 32, 28, 28], 3);
    Export::new("conv").input("x", &example, &["batch", "", "", ""]).write(&dir, f).unwrap();
    let model = Model::load(&dir).unwrap();
    let weights = 32 * 32 * 9 * 4;
    assert_eq!((model.weight_bytes(), model.packed_bytes()), (weights, 0), "nothing is compiled");
    // Transformed filters of tiles of 4×4 outputs: 36 matrices.
    let packed = 36 * 32 * 32 * 4;
    let two = model.prepare(&[2]).unwrap();
    assert_eq!((model.weight_bytes(), model.packed_bytes()), (weights + packed, packed));
    let five = model.prepare(&[5]).unwrap();
    assert_eq!(model.packed_bytes(), packed, "both sizes share them");
    for (n, prepared) in [(2, two), (5, five)] {
        let x = random(&[n, 32, 28, 28], n as u64);
        let got = prepared.run(&[x.literal().unwrap()]).unwrap()[0].to_f64();
        let want = f(&[x]).unwrap()[0].literal().unwrap().to_f64();
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs().max(1.0)));
    }
}

#[test]
fn a_perceptron_takes_any_batch() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("mlp");
    let (w, b) = (Variable::new("w", random(&[8, 4], 1)).unwrap(), Variable::new("b", random(&[8], 2)).unwrap());
    let f = |x: &[Tensor]| Ok(vec![x[0].linear(&w.tensor(), Some(&b.tensor())).relu().softmax(-1)]);
    Export::new("mlp").input("x", &random(&[1, 4], 3), &["batch", ""]).outputs(&["p"]).write(&dir, f).unwrap();
    for n in [1, 2, 5, 64] {
        agrees(&dir, &f, &[random(&[n, 4], n as u64)]);
    }
    let model = Model::load(&dir).unwrap();
    let s = model.signature();
    assert!(s.is_batched);
    assert_eq!(s.outputs[0].shape, [Axis::Free("batch".into()), Axis::Fixed(8)]);
    assert_eq!(s.outputs[0].name, "p");
    let wrong = model.run(&[random(&[2, 5], 1).literal().unwrap()]).unwrap_err();
    assert!(wrong.message.contains("x: expected f32[batch, 4], got [2, 5]"), "{wrong}");
    let kind = model.run(&[Literal::zeros(DType::I64, [2, 4])]).unwrap_err();
    assert!(kind.message.contains("expected f32, got i64"), "{kind}");
}

#[test]
fn convolutions_take_images_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("cnn");
    let w = random(&[6, 3, 3, 3], 1);
    let head = random(&[10, 6], 2);
    let f = |x: &[Tensor]| {
        let y = x[0].conv2d(&w, None, ops_options()).relu();
        let y = y.max_pool2d(2, Default::default());
        let [n, c, h, k] = y.dims()?;
        let flat = y.reshape([n, c, h * k]).mean(-1);
        Ok(vec![flat.linear(&head, None), y])
    };
    let example = random(&[2, 3, 12, 16], 4);
    Export::new("cnn").input("image", &example, &["batch", "", "height", "width"]).write(&dir, f).unwrap();
    for (n, h, w) in [(1, 8, 8), (3, 20, 14), (2, 33, 17)] {
        agrees(&dir, &f, &[random(&[n, 3, h, w], 5)]);
    }
    let model = Model::load(&dir).unwrap();
    assert_eq!(model.signature().outputs[1].shape[2], Axis::Derived);
    assert!(model.signature().is_batched);
}

fn ops_options() -> tensor::nn::ConvOptions {
    tensor::nn::ConvOptions { stride: 2.into(), padding: 1.into(), ..Default::default() }
}

#[test]
fn attention_takes_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("attention");
    let (table, w) = (random(&[50, 16], 1), random(&[48, 16], 2));
    let f = |x: &[Tensor]| {
        let [n, l] = x[0].dims()?;
        let h = table.take(&x[0], 0);
        let qkv = h.linear(&w, None).reshape([n, l, 3, 4, 4]).permute(&[2, 0, 3, 1, 4]);
        let part = |i: i64| qkv.select(0, i);
        let scores = part(0).matmul(part(1).permute(&[0, 1, 3, 2])) * 0.5;
        let y = scores.softmax(-1).matmul(part(2)).permute(&[0, 2, 1, 3]).reshape([n, l, 16]);
        Ok(vec![y.mean(1), y])
    };
    let example = Tensor::from([[1i64, 2, 3]]);
    let length = Dimension { max: 40, ..Dimension::new("length") };
    Export::new("a").input("tokens", &example, &["batch", "length"]).dimension(length).write(&dir, f).unwrap();
    for (n, l) in [(1, 1), (2, 7), (3, 40)] {
        nearly_agrees(&dir, &f, &[Tensor::from(Literal::generate([n, l], |i| (i * 7 % 50) as i64))]);
    }
    let long = Model::load(&dir).unwrap().run(&[Literal::zeros(DType::I64, [1, 41])]).unwrap_err();
    assert!(long.message.contains("length is 41, but must lie between 1 and 40"), "{long}");
}

#[test]
fn what_a_mask_hides_may_be_padding() {
    let parent = tempfile::tempdir().unwrap();
    let masked = |x: &[Tensor]| {
        let weight = x[1].cast(DType::F32);
        Ok(vec![(&x[0] * &weight).sum(1) / weight.sum(1).maximum(1e-9), &x[0] * 2.0])
    };
    let plain = |x: &[Tensor]| Ok(vec![x[0].mean(1) + x[1].cast(DType::F32).sum(1) * 0.0, &x[0] * 2.0]);
    let write = |name: &str, max: usize, f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        let dir = parent.path().join(name);
        let export = Export::new(name).input("x", &random(&[1, 4], 1), &["batch", "length"]);
        let export = export.input("mask", &Tensor::from([[1i64, 1, 1, 1]]), &["batch", "length"]);
        export.dimension(Dimension { max, ..Dimension::new("length") }).write(&dir, f).unwrap();
        Model::load(&dir).unwrap()
    };
    let model = write("masked", 20, &masked);
    assert!(model.signature().dims[1].is_padded && !model.signature().dims[0].is_padded);
    assert!(!write("plain", 20, &plain).signature().dims[1].is_padded, "a mean over the padding is another");
    let greatest = |x: &[Tensor]| Ok(vec![x[0].max(1) + x[1].cast(DType::F32).sum(1) * 0.0]);
    assert!(!write("greatest", 20, &greatest).signature().dims[1].is_padded, "zeros exceed what is negative");
    let least = |x: &[Tensor]| Ok(vec![x[0].min(1) + x[1].cast(DType::F32).sum(1) * 0.0]);
    assert!(!write("least", 20, &least).signature().dims[1].is_padded, "zeros are below what is positive");
    let any = Dimension::new("").max;
    assert!(!write("unbounded", any, &masked).signature().dims[1].is_padded, "no maximum was stated");
    let (x, mask) = (random(&[2, 5], 3).literal().unwrap(), Literal::generate([2, 5], |i| i64::from(i != 4)));
    let s = model.signature();
    assert_eq!(s.padded(&[2, 5]), [2, 8]);
    let want = model.run(&[x.clone(), mask.clone()]).unwrap();
    let got = model.run(&s.pad(&[x, mask], &[2, 8]).unwrap()).unwrap();
    for (o, (w, g)) in want.iter().zip(&got).enumerate() {
        let g = s.trim(o, g.dtype(), g.shape().dims(), g.bytes(), &[2, 5]).unwrap();
        assert_eq!(g.shape(), w.shape());
        assert!(g.to_f64().iter().zip(w.to_f64()).all(|(a, b)| (a - b).abs() < 1e-6), "{g:?} {w:?}");
    }
}

#[test]
fn rows_that_influence_each_other_are_not_batched() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("m");
    let f = |x: &[Tensor]| Ok(vec![&x[0] - x[0].mean(0)]);
    Export::new("m").input("x", &random(&[4, 3], 1), &["batch", ""]).write(&dir, f).unwrap();
    agrees(&dir, &f, &[random(&[9, 3], 2)]);
    assert!(!Model::load(&dir).unwrap().signature().is_batched);
}

#[test]
fn branches_on_sizes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let f = |x: &[Tensor]| {
        let [n, _] = x[0].dims()?;
        Ok(vec![if n > 4 { x[0].relu() } else { x[0].tanh() }])
    };
    let e =
        Export::new("m").input("x", &random(&[4, 3], 1), &["batch", ""]).write(dir.path().join("m"), f).unwrap_err();
    assert!(e.message.contains("depends on the size of \"batch\""), "{e}");
    assert!(e.to_string().contains("export.rs"), "{e}");
    let draws = |x: &[Tensor]| Ok(vec![x[0].dropout(0.5, &tensor::generator::next_key())]);
    let e = Export::new("m").input("x", &random(&[4], 1), &[""]).write(dir.path().join("m"), draws).unwrap_err();
    assert!(e.message.contains("draws random numbers"), "{e}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn changed_files_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("m");
    let w = Variable::new("w", random(&[2, 3], 1)).unwrap();
    let f = |x: &[Tensor]| Ok(vec![x[0].linear(&w.tensor(), None)]);
    let write = || Export::new("m").input("x", &random(&[4, 3], 1), &["batch", ""]).write(&dir, f).unwrap();
    for name in ["graph.bin", "weights.safetensors", "model.json"] {
        write();
        let path = dir.join(name);
        let bytes = fs::read(&path).unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 2] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x55;
            fs::write(&path, &bad).unwrap();
            let e = Model::load(&dir).err().unwrap_or_else(|| panic!("{name}: byte {at} changed"));
            assert!(e.message.contains(name), "{e}");
        }
        fs::remove_file(&path).unwrap();
        assert!(Model::load(&dir).err().unwrap().message.contains(name));
        fs::write(&path, &bytes).unwrap();
        Model::load(&dir).unwrap();
    }
    let other = parent.path().join("taken");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.txt"), "words").unwrap();
    let e = Export::new("m").input("x", &random(&[4, 3], 1), &["batch", ""]).write(&other, f).unwrap_err();
    assert!(e.message.contains("holds no model"), "{e}");
    assert!(other.join("thesis.txt").exists());
}

#[test]
fn what_depends_on_weights_alone_is_computed_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("norm");
    let (w, scale, shift) = (random(&[5, 3], 1), random(&[5], 2), random(&[5], 3));
    // Batch normalization in inference mode, after a linear layer.
    let f = |x: &[Tensor]| {
        let factor = &scale / (shift.square() + 1e-5).sqrt();
        Ok(vec![x[0].linear(&w, None) * &factor + (&shift - &scale * &factor), factor])
    };
    Export::new("norm").input("x", &random(&[2, 3], 4), &["batch", ""]).write(&dir, f).unwrap();
    for n in [1, 4, 9] {
        agrees(&dir, &f, &[random(&[n, 3], n as u64)]);
    }
    // A function of weights alone has an answer too.
    let g = |_: &[Tensor]| Ok(vec![scale.exp()]);
    Export::new("fixed").input("x", &random(&[2], 4), &["batch"]).write(&dir, g).unwrap();
    agrees(&dir, &g, &[random(&[3], 5)]);
}

#[test]
fn large_weights_are_mapped_and_outlive_their_directory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("m");
    let (large, odd) = (random(&[256, 128], 1), random(&[127, 256], 2));
    let f = |x: &[Tensor]| Ok(vec![x[0].linear(&large, None).linear(&odd, None)]);
    let export = |f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        Export::new("m").input("x", &random(&[1, 128], 3), &["batch", ""]).write(&dir, f).unwrap()
    };
    export(&f);
    let model = Model::load(&dir).unwrap();
    let x = random(&[3, 128], 4).literal().unwrap();
    let before = model.run(std::slice::from_ref(&x)).unwrap();
    export(&|x| Ok(vec![x[0].relu().linear(&large, None).linear(&odd, None)]));
    let other = Model::load(&dir).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let again = model.run(&[Literal::zeros(DType::F32, [2, 128])]).unwrap();
    assert!(again[0].to_vec::<f32>().unwrap().iter().all(|y| *y == 0.0), "a size compiled after the file is gone");
    assert_eq!(model.run(std::slice::from_ref(&x)).unwrap()[0].bytes(), before[0].bytes());
    assert_ne!(other.run(&[x]).unwrap()[0].bytes(), before[0].bytes());
}
