//! A scan with one GEMM by a square matrix in each step, such as a plain recurrent layer and its gradient, as one
//! persistent kernel. A cluster of blocks has some of the batch's rows. Each block keeps its columns of the matrix in
//! registers and its part of the state in shared memory. It reads the others' parts after a barrier.

use super::{Operand, Text};
use crate::claims::op;
use crate::emit::Kernel;
use crate::emit::scalar::{self, Val};
use crate::rewrite::views_of;
use ir::{Attrs, DType, Graph, Meaning, Slot};
use passes::View;
use std::fmt::Write;

/// Blocks of a cluster; clusters that run at once; the most rows of one.
const CLUSTER: usize = 8;
const CLUSTERS: usize = 16;
const ROWS_MAX: usize = 8;
/// The first generation of GPUs with clusters.
const FROM: u32 = 9;

/// How the work is divided.
struct Sizes {
    /// Steps, rows of the batch, columns of the state.
    steps: usize,
    batch: usize,
    width: usize,
    /// Rows of a cluster, columns of a block, its threads, and how many of them share a column.
    rows: usize,
    columns: usize,
    threads: usize,
    parts: usize,
}

impl Sizes {
    fn new(steps: usize, batch: usize, width: usize) -> Option<Sizes> {
        if ![128, 256, 512].contains(&width) || steps < 4 || batch == 0 {
            return None;
        }
        let (columns, threads) = (width / CLUSTER, if width > 256 { 512 } else { 256 });
        let rows = batch.div_ceil(CLUSTERS).clamp(1, ROWS_MAX);
        Some(Sizes { steps, batch, width, rows, columns, threads, parts: threads / columns })
    }
    /// Elements of the state that a block has, and that a thread of it has.
    fn own(&self) -> usize {
        self.rows * self.columns
    }
    fn each(&self) -> usize {
        self.own().div_ceil(self.threads)
    }
}

/// The body of a scan as steps of one element.
struct Step<'a> {
    g: &'a Graph,
    views: Vec<Option<View>>,
    /// Which input a node is.
    input: Vec<Option<usize>>,
    product: usize,
    rows: usize,
}

impl<'a> Step<'a> {
    fn new(g: &'a Graph, shape: [usize; 2], rows: usize) -> Option<Step<'a>> {
        let views = views_of(g).ok()?;
        let mut products = (0..g.nodes.len()).filter(|&i| g.nodes[i].op.name == op::MATMUL);
        let (Some(product), None) = (products.next(), products.next()) else { return None };
        let mut input = vec![None; g.nodes.len()];
        g.inputs.iter().enumerate().for_each(|(k, &i)| input[i as usize] = Some(k));
        let is_known = |i: usize| {
            let n = &g.nodes[i];
            let is_full = || n.outs[0].dtype == DType::F32 && n.outs[0].shape.dims() == shape;
            match n.op.meaning {
                Meaning::Input | Meaning::Const | Meaning::View(_) => true,
                Meaning::Scalar(_) => is_full() && n.inputs.iter().all(|s| g.ty(*s).dtype == DType::F32),
                _ => i == product && is_full(),
            }
        };
        (0..g.nodes.len()).all(is_known).then_some(Step { g, views, input, product, rows })
    }

    /// Where the matrix is: its input and its strides.
    fn matrix(&self, width: usize) -> Option<(usize, isize, isize)> {
        let v = self.views[self.g.nodes[self.product].inputs[1].node as usize].as_ref()?;
        let k = self.input[v.root.node as usize].filter(|&k| k > self.rows)?;
        let is_square = v.layout.shape.dims() == [width, width] && v.layout.offset == 0;
        is_square.then(|| (k, v.layout.strides[0], v.layout.strides[1]))
    }

    /// The statements that compute a value of an element, unless they were written already; `None` for what has no
    /// such value. Of inputs only the state and the rows do.
    fn value(&self, s: Slot, text: &mut String, names: &mut Vec<Option<Val>>) -> Option<Val> {
        if let Some(c) = self.g.constant(s).filter(|c| c.count() == 1) {
            return Some(scalar::constant(c));
        }
        let i = s.node as usize;
        if let Some(v) = &names[i] {
            return Some(v.clone());
        }
        let n = &self.g.nodes[i];
        let v = match n.op.meaning {
            Meaning::Scalar(_) => {
                let args = n.inputs.iter().map(|&a| self.value(a, text, names)).collect::<Option<Vec<Val>>>()?;
                let v = scalar::apply(n, &args.iter().collect::<Vec<_>>());
                let _ = writeln!(text, "const float v{i} = {};", v.text);
                Val { text: format!("v{i}"), ..v }
            }
            Meaning::Input => {
                let k = self.input[i].filter(|&k| k <= self.rows)?;
                let x = if k == 0 { "state[e]".to_string() } else { format!("row{k}[n]") };
                Val { text: x, dtype: DType::F32, number: None }
            }
            // A number that was broadcast.
            Meaning::View(_) => {
                let root = self.views[i].as_ref()?.root;
                let c = self.g.constant(root).filter(|c| c.count() == 1)?;
                scalar::constant(c)
            }
            _ => return None,
        };
        names[i] = Some(v.clone());
        Some(v)
    }
}

/// The kernel of a scan with this body; `None` for others.
pub fn persistent(attrs: &Attrs, body: &Graph, args: &[Operand], outs: &[Operand], major: u32) -> Option<Vec<Kernel>> {
    let (carried, rows, steps) = (attrs.size("carried").ok()?, attrs.size("rows").ok()?, attrs.size("length").ok()?);
    if major < FROM || carried != 1 {
        return None;
    }
    let [batch, width] = *args.first()?.ty.shape.dims() else { return None };
    let is_row = |o: &Operand| o.ty.shape.dims() == [steps, batch, width];
    let is_float = args.iter().chain(outs).all(|o| o.ty.dtype == DType::F32);
    let is_plain = args[1..=rows].iter().chain(&outs[1..]).all(is_row);
    if !is_float || !is_plain {
        return None;
    }
    let (s, step) = (Sizes::new(steps, batch, width)?, Step::new(body, [batch, width], rows)?);
    let (matrix, down, across) = step.matrix(width)?;
    let (before, after) = texts(&step, &s, attrs.bool("reverse").ok()?, outs)?;
    let mut t = Text::new().reads("first", &args[0]).reads("matrix", &args[matrix]);
    for (k, o) in args.iter().enumerate().take(rows + 1).skip(1) {
        t = t.reads(&format!("from{k}"), o);
    }
    for (k, o) in outs.iter().enumerate() {
        t = t.writes(&format!("to{k}"), o);
    }
    let text = kernel(&s, rows, [down, across], [&before, &after], attrs.bool("reverse").ok()?);
    let mut kernels = t.blocks(batch.div_ceil(s.rows) * CLUSTER, s.threads, &text)?;
    kernels.iter_mut().for_each(|k| k.spread_over_clusters(CLUSTER));
    Some(kernels)
}

/// What happens to an element before the GEMM, which gives `operand`, and after it.
fn texts(step: &Step, s: &Sizes, is_reverse: bool, outs: &[Operand]) -> Option<(String, String)> {
    let Sizes { batch, width, .. } = s;
    let (mut before, mut after) = (String::new(), String::new());
    let mut names = vec![None; step.g.nodes.len()];
    let operand = step.value(step.g.nodes[step.product].inputs[0], &mut before, &mut names)?;
    let _ = writeln!(before, "own[k & 1][e] = {};", operand.text);
    // They are computed again, from what the element still has.
    let mut names = vec![None; step.g.nodes.len()];
    names[step.product] = Some(Val { text: "product".to_string(), dtype: DType::F32, number: None });
    let at = if is_reverse { format!("({} - k)", s.steps - 1) } else { "k".to_string() };
    let results = &step.g.outputs;
    let mut stores = String::new();
    for (n, &r) in results.iter().enumerate().take(outs.len()).skip(1) {
        let v = step.value(r, &mut after, &mut names)?;
        let _ = writeln!(stores, "if (live) to{n}[((idx){at} * {batch} + b) * {width} + column] = {};", v.text);
    }
    let next = step.value(results[0], &mut after, &mut names)?;
    let _ = writeln!(stores, "state[e] = {};", next.text);
    Some((before, after + &stores))
}

fn kernel(s: &Sizes, rows: usize, [down, across]: [isize; 2], [before, after]: [&str; 2], is_reverse: bool) -> String {
    let Sizes { steps, batch, width, rows: own_rows, columns, threads, parts } = *s;
    let (own, each, depth) = (s.own(), s.each(), width / parts);
    let at = |k: &str| if is_reverse { format!("({} - ({k}))", steps - 1) } else { format!("({k})") };
    // The elements of a thread: row `b` of the batch and `column`.
    let elements = |body: &str| {
        format!(
            "#pragma unroll\nfor (int n = 0; n < {each}; n++) {{\nconst int e = threadIdx.x + n * {threads};\n\
             if (e < {own}) {{\nconst bool live = base + e / {columns} < {batch};\n\
             const int b = live ? base + e / {columns} : {batch} - 1, column = rank * {columns} + e % {columns};\n{body}}}\n}}\n"
        )
    };
    let load = |k: &str| -> String {
        (1..=rows)
            .map(|r| format!("next{r}[n] = from{r}[((idx){} * {batch} + b) * {width} + column];\n", at(k)))
            .collect()
    };
    let declared: String = (1..=rows).map(|r| format!("float row{r}[{each}], next{r}[{each}];\n")).collect();
    let transposed: String = (1..=rows)
        .map(|r| format!("#pragma unroll\nfor (int n = 0; n < {each}; n++) row{r}[n] = next{r}[n];\n"))
        .collect();
    format!(
        "__shared__ alignas(16) float own[2][{own}], all[{own_rows}][{width}], sums[{parts}][{own}], state[{own}];\n\
         const int rank = blockIdx.x % {CLUSTER}, base = blockIdx.x / {CLUSTER} * {own_rows};\n\
         const int j = threadIdx.x % {columns}, part = threadIdx.x / {columns};\n\
         float w[{depth}];\n\
         #pragma unroll\nfor (int i = 0; i < {depth}; i++)\n\
         w[i] = matrix[(idx)(part * {depth} + i) * {down} + (idx)(rank * {columns} + j) * {across}];\n{declared}\
         {}\
         for (int k = 0; k < {steps}; k++) {{\n{transposed}\
         {}{}\
         sync_cluster();\n\
         for (int i = threadIdx.x * 4; i < {own_rows} * {width}; i += {threads} * 4) {{\n\
         const int b = i / {width}, c = i % {width};\n\
         *(float4*)&all[b][c] = far_four(&own[k & 1][b * {columns} + c % {columns}], c / {columns});\n}}\n\
         __syncthreads();\n\
         #pragma unroll\nfor (int b = 0; b < {own_rows}; b++) {{\n\
         float sum = 0;\n\
         #pragma unroll\nfor (int i = 0; i < {depth}; i += 4) {{\n\
         const float4 a = *(const float4*)&all[b][part * {depth} + i];\n\
         sum = fmaf(a.x, w[i], sum);\nsum = fmaf(a.y, w[i + 1], sum);\n\
         sum = fmaf(a.z, w[i + 2], sum);\nsum = fmaf(a.w, w[i + 3], sum);\n}}\n\
         sums[part][b * {columns} + j] = sum;\n}}\n\
         __syncthreads();\n{}}}\n{}leave_cluster();\n",
        elements(&format!("state[e] = first[(idx)b * {width} + column];\n{}", load("0"))),
        elements(before),
        elements(&format!("if (k + 1 < {steps}) {{\n{}}}\n", load("k + 1"))),
        elements(&format!(
            "float product = 0;\n#pragma unroll\nfor (int p = 0; p < {parts}; p++) product += sums[p][e];\n{after}"
        )),
        elements(&format!("if (live) to0[(idx)b * {width} + column] = state[e];\n")),
    )
}
