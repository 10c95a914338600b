//! What each op of the table is in ONNX.

use super::emit::{A, Emitter};
use super::{control::control, ty};
use ir::{DType, Error, FlatNode, Graph, Literal, Meaning, Result, Slot, Type};

/// Ops of one input that ONNX has under another name.
const UNARY: &[(&str, &str)] = &[
    ("abs", "Abs"),
    ("acos", "Acos"),
    ("acosh", "Acosh"),
    ("asin", "Asin"),
    ("asinh", "Asinh"),
    ("atan", "Atan"),
    ("atanh", "Atanh"),
    ("ceil", "Ceil"),
    ("cos", "Cos"),
    ("cosh", "Cosh"),
    ("erf", "Erf"),
    ("exp", "Exp"),
    ("floor", "Floor"),
    ("is_inf", "IsInf"),
    ("is_nan", "IsNaN"),
    ("log", "Log"),
    ("neg", "Neg"),
    ("recip", "Reciprocal"),
    ("relu", "Relu"),
    ("round", "Round"),
    ("sigmoid", "Sigmoid"),
    ("sign", "Sign"),
    ("sin", "Sin"),
    ("sinh", "Sinh"),
    ("sqrt", "Sqrt"),
    ("stop_gradient", "Identity"),
    ("alias", "Identity"),
    ("tan", "Tan"),
    ("tanh", "Tanh"),
];
/// Ops of two inputs that ONNX has under another name.
const BINARY: &[(&str, &str)] = &[
    ("add", "Add"),
    ("div", "Div"),
    ("eq", "Equal"),
    ("ge", "GreaterOrEqual"),
    ("gt", "Greater"),
    ("le", "LessOrEqual"),
    ("lt", "Less"),
    ("maximum", "Max"),
    ("minimum", "Min"),
    ("mul", "Mul"),
    ("pow", "Pow"),
    ("sub", "Sub"),
];
/// Ops written by a rule of their own.
const OTHERS: &[&str] = &[
    "and",
    "argmax",
    "argmin",
    "avg_pool",
    "batch_norm",
    "broadcast",
    "cast",
    "concat",
    "cond",
    "conv",
    "conv_input_grad",
    "cumsum",
    "erfc",
    "exp2",
    "expm1",
    "flip",
    "floor_divide",
    "fmod",
    "gather",
    "gelu",
    "gelu_tanh",
    "index_add",
    "iota",
    "is_finite",
    "layer_norm",
    "linear",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "matmul",
    "max",
    "max_pool",
    "mean",
    "min",
    "ne",
    "not",
    "or",
    "pad",
    "permute",
    "prod",
    "quantize_static",
    "rem",
    "reshape",
    "rsqrt",
    "scan",
    "scatter",
    "scatter_add",
    "slice",
    "softmax",
    "square",
    "static_conv",
    "static_linear",
    "sum",
    "take",
    "top_k",
    "trunc",
    "unfold",
    "where",
    "xor",
];

fn is_known(name: &str) -> bool {
    UNARY.iter().chain(BINARY).any(|(n, _)| *n == name) || OTHERS.contains(&name) || name == "input" || name == "const"
}

/// Whether a composite stays whole.
pub fn keeps(n: &FlatNode, types: &[Type]) -> bool {
    if !is_known(n.op.name) || types.iter().any(|t| t.dtype.is_complex()) {
        return false;
    }
    match n.op.name {
        "avg_pool" => n.attrs.int("divisor").is_ok_and(|d| d == 0),
        // ONNX Runtime has no BatchNormalization of bf16, and no mean of integers means the same.
        "mean" => types.iter().all(|t| t.dtype.is_float()),
        "linear" => types[1].shape.rank() == 2,
        _ => true,
    }
}

/// Ops of a graph that cannot be written, once each.
pub fn unsupported(graph: &Graph) -> Vec<String> {
    let mut out = Vec::new();
    for n in &graph.nodes {
        let is_leaf = matches!(n.op.meaning, Meaning::Input | Meaning::Const);
        if !is_leaf && !is_known(n.op.name) && !out.contains(&n.op.name.to_string()) {
            out.push(n.op.name.to_string());
        }
    }
    out
}

/// Writes one node.
pub fn emit(e: &mut Emitter<'_>, graph: &Graph, at: usize) -> Result<()> {
    let n = &graph.nodes[at];
    let out = Slot::new(at, 0);
    match n.op.meaning {
        Meaning::Input => return Ok(()),
        Meaning::Const => {
            let name = e.constant(n.attrs.literal("value")?.clone());
            e.bind(out, name);
            return Ok(());
        }
        _ => {}
    }
    let x = n.inputs.iter().map(|&s| e.name(s)).collect::<Result<Vec<String>>>()?;
    let c = Node { n, x: x.iter().map(String::as_str).collect(), types: graph.input_types(n).to_vec(), at };
    let name = n.op.name;
    let y = if let Some((_, op)) = UNARY.iter().find(|(k, _)| *k == name) {
        let dtype = n.outs[0].dtype;
        let x = if c.types[0].dtype != dtype && dtype.is_float() { e.cast(c.x[0], dtype) } else { c.x[0].to_string() };
        e.node(op, &[&x], &[])
    } else if let Some((_, op)) = BINARY.iter().find(|(k, _)| *k == name) {
        binary(e, &c, op)
    } else {
        match other(e, graph, &c)? {
            Some(y) => y,
            None => return Ok(()),
        }
    };
    e.bind(out, y);
    Ok(())
}

/// A node with the names of its inputs.
pub struct Node<'a> {
    pub n: &'a FlatNode,
    pub x: Vec<&'a str>,
    types: Vec<Type>,
    pub at: usize,
}

impl Node<'_> {
    fn axis(&self) -> Result<i64> {
        self.n.attrs.int("axis")
    }
    fn dtype(&self) -> DType {
        self.types[0].dtype
    }
}

fn binary(e: &mut Emitter<'_>, c: &Node<'_>, op: &str) -> String {
    let to = c.n.outs[0].dtype;
    let is_comparison = matches!(op, "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual");
    let wide = c.types[0].dtype.promote(c.types[1].dtype);
    let want = if is_comparison { wide } else { to };
    if want == DType::Bool && !is_comparison {
        return match op {
            "Add" | "Max" => e.node("Or", &c.x, &[]),
            _ => e.node("And", &c.x, &[]),
        };
    }
    // ONNX orders numbers only.
    let want = if want == DType::Bool && op != "Equal" { DType::I32 } else { want };
    let cast = |e: &mut Emitter<'_>, i: usize| {
        if c.types[i].dtype == want { c.x[i].to_string() } else { e.cast(c.x[i], want) }
    };
    let (a, b) = (cast(e, 0), cast(e, 1));
    e.node(op, &[&a, &b], &[])
}

/// Ops with rules of their own; `None` if the results are bound already.
fn other(e: &mut Emitter<'_>, graph: &Graph, c: &Node<'_>) -> Result<Option<String>> {
    let (n, x) = (c.n, &c.x);
    let dtype = n.outs[0].dtype;
    let y = match n.op.name {
        "cast" => e.cast(x[0], dtype),
        "square" => e.node("Mul", &[x[0], x[0]], &[]),
        "rsqrt" => {
            let r = e.node("Sqrt", &[x[0]], &[]);
            e.node("Reciprocal", &[&r], &[])
        }
        "log1p" | "expm1" => {
            let one = e.number(dtype, 1.0);
            if n.op.name == "log1p" {
                let s = e.node("Add", &[x[0], &one], &[]);
                e.node("Log", &[&s], &[])
            } else {
                let s = e.node("Exp", &[x[0]], &[]);
                e.node("Sub", &[&s, &one], &[])
            }
        }
        "erfc" => {
            let one = e.number(dtype, 1.0);
            let y = e.node("Erf", &[x[0]], &[]);
            e.node("Sub", &[&one, &y], &[])
        }
        "log2" | "log10" => {
            let l = e.node("Log", &[x[0]], &[]);
            let base = e.number(dtype, if n.op.name == "log2" { 2f64.ln() } else { 10f64.ln() });
            e.node("Div", &[&l, &base], &[])
        }
        "exp2" => {
            let two = e.number(dtype, 2.0);
            e.node("Pow", &[&two, x[0]], &[])
        }
        "trunc" => {
            let (a, s) = (e.node("Abs", &[x[0]], &[]), e.node("Sign", &[x[0]], &[]));
            let f = e.node("Floor", &[&a], &[]);
            e.node("Mul", &[&s, &f], &[])
        }
        "is_finite" => {
            let (a, b) = (e.node("IsInf", &[x[0]], &[]), e.node("IsNaN", &[x[0]], &[]));
            let either = e.node("Or", &[&a, &b], &[]);
            e.node("Not", &[&either], &[])
        }
        "ne" => {
            let same = binary(e, c, "Equal");
            e.node("Not", &[&same], &[])
        }
        "not" if c.dtype() == DType::Bool => e.node("Not", &[x[0]], &[]),
        "not" => {
            let zero = e.number(c.dtype(), 0.0);
            e.node("Equal", &[x[0], &zero], &[])
        }
        "and" | "or" | "xor" => {
            let (logic, bits) = match n.op.name {
                "and" => ("And", "BitwiseAnd"),
                "or" => ("Or", "BitwiseOr"),
                _ => ("Xor", "BitwiseXor"),
            };
            e.node(if dtype == DType::Bool { logic } else { bits }, x, &[])
        }
        "where" => e.node("Where", x, &[]),
        "fmod" => e.node("Mod", x, &[("fmod", A::Int(1))]),
        "rem" if dtype.is_int() => e.node("Mod", x, &[]),
        "rem" | "floor_divide" if dtype.is_float() => {
            let q = e.node("Div", x, &[]);
            let f = e.node("Floor", &[&q], &[]);
            if n.op.name == "floor_divide" {
                f
            } else {
                let whole = e.node("Mul", &[&f, x[1]], &[]);
                e.node("Sub", &[x[0], &whole], &[])
            }
        }
        "floor_divide" => {
            let r = e.node("Mod", x, &[]);
            let whole = e.node("Sub", &[x[0], &r], &[]);
            e.node("Div", &[&whole, x[1]], &[])
        }
        "gelu" => e.node("Gelu", x, &[]),
        "gelu_tanh" => e.node("Gelu", x, &[("approximate", A::Text("tanh"))]),
        "softmax" => e.node("Softmax", x, &[("axis", A::Int(c.axis()?))]),
        "log_softmax" => e.node("LogSoftmax", x, &[("axis", A::Int(c.axis()?))]),
        "sum" | "mean" | "max" | "min" | "prod" => reduce(e, c)?,
        "argmax" => e.node("ArgMax", x, &[("axis", A::Int(c.axis()?)), ("keepdims", A::Int(1))]),
        "argmin" => e.node("ArgMin", x, &[("axis", A::Int(c.axis()?)), ("keepdims", A::Int(1))]),
        "matmul" => e.node("MatMul", x, &[]),
        "linear" => {
            let w = e.node("Transpose", &[x[1]], &[("perm", A::Ints(&[1, 0]))]);
            let y = e.node("MatMul", &[x[0], &w], &[]);
            if let Some(b) = x.get(2) { e.node("Add", &[&y, b], &[]) } else { y }
        }
        "concat" => e.node("Concat", x, &[("axis", A::Int(c.axis()?))]),
        "take" => e.node("Gather", x, &[("axis", A::Int(c.axis()?))]),
        "gather" => e.node("GatherElements", x, &[("axis", A::Int(c.axis()?))]),
        "scatter" => e.node("ScatterElements", x, &[("axis", A::Int(c.axis()?))]),
        "scatter_add" => e.node("ScatterElements", x, &[("axis", A::Int(c.axis()?)), ("reduction", A::Text("add"))]),
        "index_add" => {
            // The index of a slice as that of each of its elements.
            let axis = c.axis()?;
            let mut form = vec![1; c.types[0].shape.rank()];
            form[axis as usize] = -1;
            let (form, sizes) = (e.ints(&form), e.node("Shape", &[x[2]], &[]));
            let index = e.node("Reshape", &[x[1], &form], &[]);
            let index = e.node("Expand", &[&index, &sizes], &[]);
            let attributes = [("axis", A::Int(axis)), ("reduction", A::Text("add"))];
            e.node("ScatterElements", &[x[0], &index, x[2]], &attributes)
        }
        "cumsum" => {
            let axis = e.constant(Literal::scalar(c.axis()?));
            let wide = if c.dtype() == dtype { x[0].to_string() } else { e.cast(x[0], dtype) };
            e.node("CumSum", &[&wide, &axis], &[("reverse", A::Int(i64::from(n.attrs.bool("reverse")?)))])
        }
        "layer_norm" => layer_norm(e, c)?,
        "batch_norm" => batch_norm(e, c)?,
        "conv" | "conv_input_grad" => conv(e, c, x[0], x[1], None)?,
        "quantize_static" => {
            let (step, zero) = steps(e, c, dtype)?;
            e.node("QuantizeLinear", &[x[0], &step, &zero], &[])
        }
        "static_conv" => {
            let (a, b) = dequantized(e, c, 0)?;
            conv(e, c, &a, &b, Some(x[3]))?
        }
        "static_linear" => {
            let (a, b) = dequantized(e, c, 1)?;
            let y = e.node("MatMul", &[&a, &b], &[]);
            e.node("Add", &[&y, x[3]], &[])
        }
        "max_pool" | "avg_pool" => return pool(e, graph, c),
        "top_k" => return top_k(e, c),
        "scan" | "cond" => return control(e, c),
        _ => moved(e, graph, c)?,
    };
    Ok(Some(y))
}

fn reduce(e: &mut Emitter<'_>, c: &Node<'_>) -> Result<String> {
    let op = match c.n.op.name {
        "sum" => "ReduceSum",
        "mean" => "ReduceMean",
        "max" => "ReduceMax",
        "min" => "ReduceMin",
        _ => "ReduceProd",
    };
    let to = c.n.outs[0].dtype;
    // Sums of integers are 64 bits wide; ONNX keeps the type. It has no extremes of bool.
    let wide = if to == DType::Bool { DType::I32 } else { to };
    let x = if c.dtype() == wide { c.x[0].to_string() } else { e.cast(c.x[0], wide) };
    let axes = e.ints(c.n.attrs.ints("axes")?);
    let y = e.node(op, &[&x, &axes], &[("keepdims", A::Int(1))]);
    Ok(if wide == to { y } else { e.cast(&y, to) })
}

fn layer_norm(e: &mut Emitter<'_>, c: &Node<'_>) -> Result<String> {
    let axes = c.n.attrs.size("axes")?;
    let shape = &c.types[0].shape;
    let part: ir::Shape = shape[shape.rank() - axes..].into();
    let mut inputs = c.x.clone();
    let ones;
    if inputs.len() == 1 {
        ones = e.constant(Literal::from_f64(c.dtype(), part.clone(), &vec![1.0; part.count()]));
        inputs.push(&ones);
    }
    let eps = c.n.attrs.float("eps")?;
    Ok(e.node("LayerNormalization", &inputs, &[("axis", A::Int(-(axes as i64))), ("epsilon", A::Float(eps))]))
}

fn batch_norm(e: &mut Emitter<'_>, c: &Node<'_>) -> Result<String> {
    let channels = c.types[1].shape.count();
    let fill = |e: &mut Emitter<'_>, v: f64| e.constant(Literal::from_f64(c.dtype(), [channels], &vec![v; channels]));
    let weight = if let Some(w) = c.x.get(3) { w.to_string() } else { fill(e, 1.0) };
    let bias = if let Some(b) = c.x.get(4) { b.to_string() } else { fill(e, 0.0) };
    let eps = c.n.attrs.float("eps")?;
    Ok(e.node("BatchNormalization", &[c.x[0], &weight, &bias, c.x[1], c.x[2]], &[("epsilon", A::Float(eps))]))
}

/// The size of a step and its zero, as `QuantizeLinear` takes them.
fn steps(e: &mut Emitter<'_>, c: &Node<'_>, dtype: DType) -> Result<(String, String)> {
    Ok((e.number(DType::F32, c.n.attrs.float("step")?), e.number(dtype, 0.0)))
}

/// The operands of a quantized layer as floats, whose weight has outputs along an axis.
fn dequantized(e: &mut Emitter<'_>, c: &Node<'_>, axis: i64) -> Result<(String, String)> {
    let (step, zero) = steps(e, c, c.dtype())?;
    let a = e.node("DequantizeLinear", &[c.x[0], &step, &zero], &[]);
    let b = e.node("DequantizeLinear", &[c.x[1], c.x[2]], &[("axis", A::Int(axis))]);
    Ok((a, b))
}

fn conv(e: &mut Emitter<'_>, c: &Node<'_>, x: &str, weight: &str, bias: Option<&str>) -> Result<String> {
    let a = &c.n.attrs;
    let (stride, dilation, groups) = (a.ints("stride")?, a.ints("dilation")?, a.int("groups")?);
    let (mut lo, mut hi) = (a.ints("padding_lo")?.to_vec(), a.ints("padding_hi")?.to_vec());
    let rank = stride.len();
    let kernel: Vec<i64> = c.types[1].shape[2..].iter().map(|&d| d as i64).collect();
    let mut x = x.to_string();
    let is_transposed = c.n.op.name == "conv_input_grad";
    if !is_transposed && lo.iter().chain(&hi).any(|&p| p < 0) {
        // ONNX's convolution does not crop.
        let pads = [&[0, 0], &lo[..], &[0, 0], &hi[..]].concat();
        let pads = e.ints(&pads);
        x = e.node("Pad", &[&x, &pads], &[]);
        (lo, hi) = (vec![0; rank], vec![0; rank]);
    }
    let pads = [lo.clone(), hi.clone()].concat();
    let mut more = vec![0i64; rank];
    if is_transposed {
        let (from, to) = (&c.types[0].shape, &c.n.outs[0].shape);
        for i in 0..rank {
            let size = (from[i + 2] as i64 - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - lo[i] - hi[i];
            more[i] = to[i + 2] as i64 - size;
        }
    }
    let mut attributes = vec![
        ("kernel_shape", A::Ints(&kernel)),
        ("strides", A::Ints(stride)),
        ("dilations", A::Ints(dilation)),
        ("pads", A::Ints(&pads)),
        ("group", A::Int(groups)),
    ];
    if is_transposed {
        attributes.push(("output_padding", A::Ints(&more)));
    }
    let operands: Vec<&str> = [&x, weight].into_iter().chain(bias).collect();
    Ok(e.node(if is_transposed { "ConvTranspose" } else { "Conv" }, &operands, &attributes))
}

fn pool(e: &mut Emitter<'_>, graph: &Graph, c: &Node<'_>) -> Result<Option<String>> {
    let a = &c.n.attrs;
    let is_max = c.n.op.name == "max_pool";
    let padding = a.ints(if is_max { "padding_lo" } else { "padding" })?;
    let (window, stride, out) = (a.ints("window")?, a.ints("stride")?, a.ints("out")?);
    let ones = vec![1; window.len()];
    let dilation = if is_max { a.ints("dilation")? } else { &ones };
    // Windows that reach beyond the end are borders after it. Of those of max pooling, only what is reached counts.
    let mut pads = [padding, padding].concat();
    let sizes = &c.types[0].shape[2..];
    let rank = window.len();
    for i in 0..rank {
        let reach = (out[i] - 1) * stride[i] + (window[i] - 1) * dilation[i] + 1;
        let after = if is_max { 0 } else { padding[i] };
        pads[rank + i] = after.max(reach - sizes[i] as i64 - padding[i]);
    }
    let mut attributes =
        vec![("kernel_shape", A::Ints(window)), ("strides", A::Ints(stride)), ("pads", A::Ints(&pads))];
    if is_max {
        let is_used = graph.outputs.contains(&Slot::new(c.at, 1))
            || graph.nodes.iter().any(|n| n.inputs.contains(&Slot::new(c.at, 1)));
        if is_used {
            let e = "the places that max pooling found differ in ONNX: return the values alone";
            return Err(Error::value(e).in_op("onnx"));
        }
        attributes.push(("dilations", A::Ints(dilation)));
        return Ok(Some(e.node("MaxPool", &c.x, &attributes)));
    }
    let counts = a.bool("count_include_pad")?;
    if counts && pads[rank..] != *padding {
        return Err(Error::value("avg_pool with ceil_mode and count_include_pad differs in ONNX").in_op("onnx"));
    }
    attributes.push(("count_include_pad", A::Int(i64::from(counts))));
    Ok(Some(e.node("AveragePool", &c.x, &attributes)))
}

fn top_k(e: &mut Emitter<'_>, c: &Node<'_>) -> Result<Option<String>> {
    let k = e.ints(&[c.n.attrs.int("k")?]);
    let (values, places) = (e.unique("top_values"), e.unique("top_places"));
    let is_largest = i64::from(c.n.attrs.bool("largest")?);
    let attributes = [("axis", A::Int(c.axis()?)), ("largest", A::Int(is_largest))];
    e.node_to("TopK", &[c.x[0], &k], &[&values, &places], &attributes);
    e.bind(Slot::new(c.at, 0), values);
    e.bind(Slot::new(c.at, 1), places);
    Ok(None)
}

/// Ops that move elements.
fn moved(e: &mut Emitter<'_>, graph: &Graph, c: &Node<'_>) -> Result<String> {
    let (n, x) = (c.n, &c.x);
    // `iota` has no input.
    let shape = &c.types.first().unwrap_or(&n.outs[0]).shape;
    Ok(match n.op.name {
        "reshape" => {
            let other = e.other_ints("shape");
            let to = e.sizes(n.attrs.ints("shape")?, other.as_deref(), true)?;
            e.node("Reshape", &[x[0], &to], &[])
        }
        "broadcast" => {
            let other = e.other_ints("shape");
            let to = e.sizes(n.attrs.ints("shape")?, other.as_deref(), false)?;
            e.node("Expand", &[x[0], &to], &[])
        }
        "permute" => e.node("Transpose", x, &[("perm", A::Ints(n.attrs.ints("axes")?))]),
        "flip" => {
            let axes = n.attrs.ints("axes")?;
            let (starts, ends) = (vec![-1; axes.len()], vec![i64::MIN; axes.len()]);
            let (s, t, a) = (e.ints(&starts), e.ints(&ends), e.ints(axes));
            let by = e.ints(&vec![-1; axes.len()]);
            e.node("Slice", &[x[0], &s, &t, &a, &by], &[])
        }
        "slice" => {
            let (starts, sizes, steps) = (n.attrs.ints("starts")?, n.attrs.ints("sizes")?, n.attrs.ints("steps")?);
            let (other_starts, other_sizes) = (e.other_ints("starts"), e.other_ints("sizes"));
            let mut ends = Vec::new();
            for a in 0..starts.len() {
                let is_free = other_sizes.as_ref().is_some_and(|o| o[a] != sizes[a]);
                let is_moved = other_starts.as_ref().is_some_and(|o| o[a] != starts[a]);
                let reaches_end = steps[a] == 1 && starts[a] + sizes[a] == shape[a] as i64;
                if is_moved || (is_free && !reaches_end) {
                    let e = "a slice depends on an input's size: export the model with fixed sizes";
                    return Err(Error::value(e).in_op("onnx"));
                }
                let end = starts[a] + sizes[a] * steps[a];
                ends.push(if is_free {
                    i64::MAX
                } else if end < 0 {
                    i64::MIN
                } else {
                    end
                });
            }
            let axes: Vec<i64> = (0..starts.len() as i64).collect();
            let (s, t, a, by) = (e.ints(starts), e.ints(&ends), e.ints(&axes), e.ints(steps));
            e.node("Slice", &[x[0], &s, &t, &a, &by], &[])
        }
        "pad" => {
            let pads = [n.attrs.ints("lo")?, n.attrs.ints("hi")?].concat();
            let pads = e.ints(&pads);
            let value = e.number(c.dtype(), n.attrs.float("value")?);
            if c.dtype() == DType::Bool {
                let wide = e.cast(x[0], DType::U8);
                let value = e.cast(&value, DType::U8);
                let y = e.node("Pad", &[&wide, &pads, &value], &[]);
                return Ok(e.cast(&y, DType::Bool));
            }
            e.node("Pad", &[x[0], &pads, &value], &[])
        }
        "iota" => {
            let (size, dtype) = (n.attrs.int("size")?, n.outs[0].dtype);
            match e.other_int("size").filter(|&o| o != size) {
                Some(o) => {
                    let limit = e.size(size, o)?;
                    let scalar = e.ints(&[]);
                    let limit = e.node("Reshape", &[&limit, &scalar], &[]);
                    let (zero, one) = (e.number(DType::I64, 0.0), e.number(DType::I64, 1.0));
                    let y = e.node("Range", &[&zero, &limit, &one], &[]);
                    if dtype == DType::I64 { y } else { e.cast(&y, dtype) }
                }
                None => {
                    let values: Vec<i64> = (0..size).collect();
                    e.constant(Literal::from_i64(dtype, [size as usize], &values))
                }
            }
        }
        "unfold" => {
            let (axis, size, step) = (c.axis()?, n.attrs.size("size")?, n.attrs.size("step")?);
            let count = n.outs[0].shape[axis as usize];
            let places: Vec<i64> = (0..count).flat_map(|i| (0..size).map(move |k| (i * step + k) as i64)).collect();
            if e.other_graph().is_some_and(|g| g.nodes[c.at].outs[0].shape[axis as usize] != count) {
                let e = "windows depend on an input's size: export the model with fixed sizes";
                return Err(Error::value(e).in_op("onnx"));
            }
            let index = e.constant(Literal::from_i64(DType::I64, [count, size], &places));
            let y = e.node("Gather", &[x[0], &index], &[("axis", A::Int(axis))]);
            let rank = shape.rank() as i64 + 1;
            let perm: Vec<i64> = (0..rank).filter(|&a| a != axis + 1).chain([axis + 1]).collect();
            e.node("Transpose", &[&y], &[("perm", A::Ints(&perm))])
        }
        name => {
            let t = ty(graph, Slot::new(c.at, 0));
            return Err(Error::bug(format!("{name} of {t} has no rule")).in_op("onnx"));
        }
    })
}
