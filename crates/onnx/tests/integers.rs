//! Files with `QuantizeLinear` and `DequantizeLinear` around layers run in kernels of integers, with the numbers of the
//! layers that were written.

use cpu as _;
use ir::{DType, Literal, Type};
use talweg_onnx::{Export, Model};
use tensor::Tensor;
use tensor::nn::ConvOptions;

fn bytes(shape: &[usize], step: i64) -> Tensor {
    let data: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|i| i * step % 255 - 127).collect();
    Literal::from_i64(DType::I8, shape, &data).into()
}

fn floats(shape: &[usize], scale: f32) -> Tensor {
    Literal::generate(shape, |i| ((i * 37 % 101) as f32 - 50.0) * scale).into()
}

/// Steps are powers of two, so that products with one over a step are quotients.
fn net(x: &Tensor, is_signed: bool) -> Tensor {
    let (to, options) = (if is_signed { DType::I8 } else { DType::U8 }, ConvOptions::new().padding(1));
    let q = x.quantize_static(0.25, to);
    let y = q.static_conv(0.25, &bytes(&[16, 8, 3, 3], 91), &floats(&[16], 1e-4), &floats(&[16], 0.1), options.clone());
    let q = y.relu().quantize_static(0.125, DType::U8);
    let deep = options.groups(16);
    let y = q.static_conv(0.125, &bytes(&[16, 1, 3, 3], 71), &floats(&[16], 1e-3), &floats(&[16], 0.01), deep);
    let q = y.quantize_static(0.0625, to);
    let y = q.permute(&[0, 2, 3, 1]).static_linear(
        0.0625,
        &bytes(&[16, 24], 53),
        &floats(&[24], 1e-3),
        &floats(&[24], 0.02),
    );
    let q = y.relu().quantize_static(0.25, DType::U8);
    q.static_linear(0.25, &bytes(&[24, 5], 29), &floats(&[5], 1e-3), &floats(&[5], 0.3))
}

#[test]
fn layers_of_a_file_stay_integers() {
    let folder = tempfile::tempdir().unwrap();
    for is_signed in [false, true] {
        let path = folder.path().join("net.onnx");
        let ty = Type::new(DType::F32, [2, 8, 6, 7]);
        Export::new("net").input("x", ty.clone(), &[]).write(&path, |x| Ok(vec![net(&x[0], is_signed)])).unwrap();
        let model = Model::open(&path).unwrap();
        // Scales belong to quantized tensors: only biases are trained.
        assert!(model.weights().iter().all(|(_, w)| [16, 24, 5].contains(&w.shape().count())));
        let text = model.explain(&[ty]).unwrap();
        assert!(text.matches("requantized").count() >= 3, "{text}");
        let x = floats(&[2, 8, 6, 7], 0.7);
        let got = model.run_tensors(std::slice::from_ref(&x)).unwrap()[0].to_vec::<f32>().unwrap();
        assert_eq!(got, net(&x, is_signed).to_vec::<f32>().unwrap(), "signed: {is_signed}");
    }
}
