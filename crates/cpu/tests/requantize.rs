//! Convolutions of bytes with the epilogue that requantizes their sums: the reference's bytes, in one kernel.

use ir::{Attr, Attrs, Buffer, DType, Graph, Literal, Site, Slot, Type};
use runtime::{Device, Program, reference};
use std::sync::Arc;
use talweg_cpu::Cpu;

const SITE: Site = Site::new("user.rs", 7, 1);

#[derive(Default)]
struct Net(Graph);

impl Net {
    fn op(&mut self, name: &str, inputs: &[Slot], attrs: Attrs) -> Slot {
        self.0.push(ops::find(name).unwrap(), inputs, attrs, SITE).unwrap()
    }
    fn f(&mut self, name: &str, inputs: &[Slot]) -> Slot {
        self.op(name, inputs, Attrs::new())
    }
    fn cast(&mut self, x: Slot, to: DType) -> Slot {
        self.op("cast", &[x], Attrs::new().with("dtype", to))
    }
    fn constant(&mut self, value: Literal) -> Slot {
        self.0.push(&ir::CONST, &[], Attrs::new().with("value", Attr::Literal(value)), SITE).unwrap()
    }
    fn number(&mut self, x: f32) -> Slot {
        self.constant(Literal::scalar(x))
    }
    fn conv(&mut self, x: Slot, w: Slot, pad: i64, groups: i64) -> Slot {
        let both = |n: i64| Attr::Ints(vec![n; 2].into());
        let attrs = Attrs::new().with("stride", both(1)).with("dilation", both(1)).with("groups", groups);
        self.op("int_conv", &[x, w], attrs.with("padding_lo", both(pad)).with("padding_hi", both(pad)))
    }
    /// Numbers in steps, as bytes.
    fn bytes(&mut self, x: Slot, by: f32, to: DType) -> Slot {
        let (low, high) = if to == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
        let (by, low, high) = (self.number(by), self.number(low), self.number(high));
        let steps = self.f("mul", &[x, by]);
        let steps = self.f("round", &[steps]);
        let steps = self.f("maximum", &[steps, low]);
        let steps = self.f("minimum", &[steps, high]);
        self.cast(steps, to)
    }
    fn compile(&mut self, outputs: &[Slot]) -> Arc<dyn Program> {
        self.0.outputs = outputs.to_vec();
        Cpu::new().compile(self.0.clone()).unwrap()
    }
}

fn bytes(dtype: DType, shape: &[usize], step: i64) -> Literal {
    let data: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|i| i * step % 255 - 127).collect();
    Literal::from_i64(dtype, shape, &data)
}

/// Depthwise and dense, with and without a residual sum, both kinds of bytes, the numbers kept or not.
#[test]
fn bytes_of_the_reference() {
    for case in 0..16 {
        let [is_depthwise, has_residual, is_signed, is_kept] = [1, 2, 4, 8].map(|bit| case & bit != 0);
        let (side, channels, outputs) = (9, 24, if is_depthwise { 24 } else { 40 });
        let from = if is_signed { DType::I8 } else { DType::U8 };
        let mut net = Net::default();
        let x = net.0.input("x", &Type::new(from, [2, side, side, channels]), SITE);
        let r = net.0.input("r", &Type::new(DType::F32, [2, side, side, outputs]), SITE);
        let groups = if is_depthwise { channels } else { 1 };
        let w = net.constant(bytes(DType::I8, &[outputs, channels / groups, 3, 3], 91));
        let sums = net.conv(x, w, 1, groups as i64);
        let sums = net.cast(sums, DType::F32);
        let scale = net.constant(Literal::generate([outputs], |i| 1e-4 + i as f32 * 1e-6));
        let bias = net.constant(Literal::generate([outputs], |i| i as f32 * 0.1 - 1.0));
        let y = net.f("mul", &[sums, scale]);
        let mut y = net.f("add", &[y, bias]);
        if has_residual {
            y = net.f("add", &[y, r]);
        }
        let (zero, six) = (net.number(0.0), net.number(6.0));
        let y = net.f("maximum", &[y, zero]);
        let y = net.f("minimum", &[y, six]);
        let q = net.bytes(y, 255.0 / 6.0, DType::U8);
        let program = net.compile(&if is_kept { vec![q, y] } else { vec![q] });
        let text = program.explain();
        assert!(text.contains("requantized"), "case {case}: {text}");
        let inputs = vec![
            bytes(from, &[2, side, side, channels], 37),
            Literal::generate([2, side, side, outputs], |i| (i % 13) as f32 * 0.3 - 2.0),
        ];
        let want = reference::run(&net.0, &inputs).unwrap();
        let mut given: Vec<Buffer> = inputs.into_iter().map(Buffer::Host).collect();
        let got = program.run(&mut given).unwrap();
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.read().unwrap().bytes(), want.bytes(), "case {case}");
        }
    }
}

/// Products with a constant, as other libraries write them: an integer for each column, and zero points.
#[test]
fn products_with_zero_points() {
    for case in 0..4 {
        let [is_signed, has_bias] = [1, 2].map(|bit| case & bit != 0);
        let (rows, inner, outputs) = (37, 52, 41);
        let from = if is_signed { DType::I8 } else { DType::U8 };
        let mut net = Net::default();
        let x = net.0.input("x", &Type::new(from, [rows, inner]), SITE);
        let w = net.constant(bytes(DType::I8, &[inner, outputs], 91));
        let sums = net.f("int_matmul", &[x, w]);
        let offset = net.constant(Literal::generate([outputs], |i| i as i32 * 1001 - 20_000));
        let sums = net.f("add", &[sums, offset]);
        let mut y = net.cast(sums, DType::F32);
        let scale = net.constant(Literal::generate([outputs], |i| 1e-3 + i as f32 * 1e-5));
        y = net.f("mul", &[y, scale]);
        if has_bias {
            let bias = net.constant(Literal::generate([outputs], |i| i as f32 * 0.1 - 1.0));
            y = net.f("add", &[y, bias]);
        }
        // Sums that are in steps already are rounded as they are.
        let steps = net.f("round", &[y]);
        let (zero, low, high) = (net.number(if is_signed { -7.0 } else { 113.0 }), net.number(0.0), net.number(127.0));
        let steps = net.f("add", &[steps, zero]);
        let steps = net.f("maximum", &[steps, low]);
        let steps = net.f("minimum", &[steps, high]);
        let q = net.cast(steps, from);
        let program = net.compile(&[q]);
        let text = program.explain();
        assert!(text.contains("requantized"), "case {case}: {text}");
        let inputs = vec![bytes(from, &[rows, inner], 37)];
        let want = reference::run(&net.0, &inputs).unwrap();
        let got = program.run(&mut [Buffer::Host(inputs[0].clone())]).unwrap();
        assert_eq!(got[0].read().unwrap().bytes(), want[0].bytes(), "case {case}");
    }
}

/// Residual sums whose other operand was quantized before: its bytes are read, or the sums of the kernel that made it.
#[test]
fn residuals_of_integers() {
    for case in 0..8 {
        let [is_shortcut, is_signed, is_centered] = [1, 2, 4].map(|bit| case & bit != 0);
        let (side, channels, outputs) = (15, 24, 40);
        let to = if is_signed { DType::I8 } else { DType::U8 };
        let mut net = Net::default();
        let x = net.0.input("x", &Type::new(DType::U8, [2, side, side, channels]), SITE);
        let scaled = |net: &mut Net, sums: Slot, by: f32| {
            let sums = net.cast(sums, DType::F32);
            let scale = net.constant(Literal::generate([outputs], |i| by + i as f32 * 1e-6));
            let bias = net.constant(Literal::generate([outputs], |i| i as f32 * 0.01 - 0.2));
            let y = net.f("mul", &[sums, scale]);
            net.f("add", &[y, bias])
        };
        let back = |net: &mut Net, q: Slot| {
            let (zero, step) = (net.number(3.0), net.number(0.05));
            let real = net.cast(q, DType::F32);
            let real = if is_centered { net.f("sub", &[real, zero]) } else { real };
            net.f("mul", &[real, step])
        };
        let quantized = |net: &mut Net, y: Slot| {
            let (by, zero) = (net.number(20.0), net.number(3.0));
            let (low, high) = if is_signed { (-128.0, 127.0) } else { (0.0, 255.0) };
            let (low, high) = (net.number(low), net.number(high));
            let steps = net.f("mul", &[y, by]);
            let steps = net.f("round", &[steps]);
            let steps = if is_centered { net.f("add", &[steps, zero]) } else { steps };
            let steps = net.f("maximum", &[steps, low]);
            let steps = net.f("minimum", &[steps, high]);
            net.cast(steps, to)
        };
        let w = net.constant(bytes(DType::I8, &[outputs, channels, 1, 1], 91));
        let first = net.conv(x, w, 0, 1);
        let first = scaled(&mut net, first, 1e-3);
        let q = quantized(&mut net, first);
        let other = back(&mut net, q);
        let (from, inner) = if is_shortcut { (x, channels) } else { (q, outputs) };
        let w = net.constant(bytes(DType::I8, &[outputs, inner, 1, 1], 37));
        let second = net.conv(from, w, 0, 1);
        let second = scaled(&mut net, second, 5e-4);
        let q = quantized(&mut net, second);
        let second = back(&mut net, q);
        let y = net.f("add", &[other, second]);
        let q = quantized(&mut net, y);
        let program = net.compile(&[q]);
        let text = program.explain();
        let count = text.matches("requantized").count();
        assert_eq!(count, if is_shortcut { 1 } else { 2 }, "case {case}: {text}");
        let inputs = vec![bytes(DType::U8, &[2, side, side, channels], 37)];
        let want = reference::run(&net.0, &inputs).unwrap();
        let got = program.run(&mut [Buffer::Host(inputs[0].clone())]).unwrap();
        assert_eq!(got[0].read().unwrap().bytes(), want[0].bytes(), "case {case}");
    }
}
