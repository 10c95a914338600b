//! Runs of a bundle allocate nothing. This test is alone in its process: the counter sees every thread.

use cpu::Compiled;
use ir::Literal;
use talweg_edge::{Model, bundle};
use tensor::Tensor;
use tensor::nn::{ConvOptions, MaxPoolOptions};
use testkit::allocations::{Counting, least};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Zeros of a shape: what is allocated does not depend on values.
fn zeros(shape: &[usize]) -> Tensor {
    Tensor::from(Literal::new(shape, &vec![0f32; shape.iter().product()]).unwrap())
}

#[test]
fn runs_allocate_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("net");
    let net = |x: &Tensor| {
        let h = x.conv2d(&zeros(&[8, 1, 3, 3]), None, ConvOptions { padding: 1.into(), ..ConvOptions::default() });
        let h = (h + zeros(&[8, 1, 1])).relu().max_pool2d(2, MaxPoolOptions::default());
        (h.flatten(1, -1).matmul(&zeros(&[1568, 10])) + zeros(&[10])).softmax(-1)
    };
    model::Export::new("net")
        .input("image", &zeros(&[2, 1, 28, 28]), &["batch", "", "", ""])
        .write(&dir, |x| Ok(vec![net(&x[0])]))
        .unwrap();
    let model = model::Model::load(&dir).unwrap();
    let graph = tensor::engine().optimize(&model.frozen(&[1]).unwrap()).unwrap();
    let compiled = Compiled::new(graph).unwrap();
    let bytes = bundle("net", &["image".into()], &["output".into()], compiled.plan()).unwrap();
    let memory = Box::leak(Box::new(ir::Bytes::copy_of(&bytes)));
    let built = Model::new(&memory.as_slice()[..bytes.len()]).unwrap();
    let (x, mut y) = (vec![0u8; 28 * 28 * 4], vec![0u8; 40]);
    built.run(&[&x], &mut [&mut y]).unwrap();
    let cost = least(5, 10, || built.run(&[&x], &mut [&mut y]).unwrap());
    assert_eq!(cost.calls, 0, "{} bytes", cost.bytes);
}
