//! Several loops and kernels that do not need each other as one launch: each has its own blocks. An optimizer's
//! steps for many parameters become a few launches.

use super::body::{Body, Writer};
use super::kernels::{self, Operand};
use super::pointwise::BLOCK;
use super::{Arg, Kernel, access, pointwise, scalar, transpose};
use ir::Graph;
use passes::{Loop, Step};
use std::fmt::Write;

/// True for a loop that reduces and turns nothing, and so is one kernel that wants no memory of its
/// own.
pub fn is_plain(l: &Loop) -> bool {
    !transpose::fits(l) && !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }))
}

/// A kernel or several with the same text, one after the other.
pub struct Part {
    text: String,
    params: Vec<String>,
    /// Blocks of each.
    grid: usize,
    args: Vec<Vec<Arg>>,
}

impl Part {
    /// A plain loop, with whether a result may lie where an operand does.
    pub fn of_loop(l: &Loop, graph: &Graph, in_place: bool) -> Part {
        let b = Body::new(l, graph, in_place, |_| true, true);
        let (w, grid) = pointwise::plain(&b);
        let (text, params, args) = Writer::parts(w);
        Part { text, params, grid, args: vec![args] }
    }
    /// A plain loop of one result whose elements go into another value `y` (beside an index of their
    /// shape), each where the index says along an axis.
    pub fn of_put(l: &Loop, graph: &Graph, args: &[Operand], y: &Operand, axis: usize) -> Part {
        let b = Body::new(l, graph, false, |_| true, true);
        let count: usize = l.dims.iter().product();
        let mut w = Writer::new(&b);
        let (text, at) = access::split(&l.dims, "n", "n");
        // Places of 32 bits are cheaper to take apart.
        let idx = if y.ty.shape.count() < i32::MAX as usize { b.idx() } else { "long long" };
        w.put(format!(
            "typedef {idx} idx;\nconst idx n = (idx)blockIdx.x * {0} + threadIdx.x;\nif (n >= {count}) return;\n{text}\n",
            pointwise::BLOCK
        ));
        let names = w.steps_at(&at);
        for s in &b.stores {
            let (value, dtype) = (b.val(s.step as usize, &names).text, y.ty.dtype);
            w.put(format!(
                "const idx i = {};\n{}",
                access::index(&s.strides, 0, &at),
                kernels::place(y, &args[1], axis)
            ));
            w.put(format!("y[at] = put_{dtype}({value});\n"));
        }
        let (text, mut params, mut list) = w.parts();
        let (index, ty) = (&args[1], scalar::stored(y.ty.dtype));
        params.push(format!("const {}* __restrict__ index", scalar::stored(index.ty.dtype)));
        params.extend([format!("{ty}* __restrict__ y"), "Report* report".to_string(), "long long launch".to_string()]);
        list.extend([Arg::Value(index.slot), Arg::Value(y.slot), Arg::Report, Arg::Launch]);
        Part { text, params, grid: count.div_ceil(pointwise::BLOCK), args: vec![list] }
    }
    /// A plain loop of one result, rows of which go into a KV cache `y` at slots.
    pub fn of_paged_write(l: &Loop, graph: &Graph, slots: &Operand, y: &Operand) -> Part {
        let b = Body::new(l, graph, false, |_| true, true);
        let count: usize = l.dims.iter().product();
        let mut w = Writer::new(&b);
        let (text, at) = access::split(&l.dims, "n", "n");
        w.put(format!(
            "typedef {} idx;\nconst idx n = (idx)blockIdx.x * {BLOCK} + threadIdx.x;\nif (n >= {count}) return;\n{text}\n",
            b.idx()
        ));
        let names = w.steps_at(&at);
        let (row, all) = (y.ty.shape[2] * y.ty.shape[3], y.ty.shape[0] * y.ty.shape[1]);
        for s in &b.stores {
            w.put(format!(
                "const idx i = {index};\nconst long long slot = slots[{first} + i / {row}];\n\
                 if (slot >= 0 && slot < {all}) y[{offset} + slot * {row} + i % {row}] = put_{dtype}({value});\n",
                index = access::index(&s.strides, 0, &at),
                first = slots.layout.offset,
                offset = y.layout.offset,
                dtype = y.ty.dtype,
                value = b.val(s.step as usize, &names).text,
            ));
        }
        let (text, mut params, mut list) = w.parts();
        params.push(format!("const {}* __restrict__ slots", scalar::stored(slots.ty.dtype)));
        params.push(format!("{}* __restrict__ y", scalar::stored(y.ty.dtype)));
        list.extend([Arg::Value(slots.slot), Arg::Value(y.slot)]);
        Part { text, params, grid: count.div_ceil(BLOCK), args: vec![list] }
    }
    /// A kernel that has a thread for each element; `None` for others.
    pub fn of_kernel(k: &Kernel) -> Option<Part> {
        let head = format!("extern \"C\" __global__ void __launch_bounds__({}) run(", pointwise::BLOCK);
        let (idx, rest) = k.source.split_once(&head)?;
        let (params, body) = rest.split_once(") {\n")?;
        let text = format!("{idx}{}", body.strip_suffix("}\n")?);
        let params: Vec<String> = params.split(", ").map(str::to_string).collect();
        let fits = k.block as usize == pointwise::BLOCK && !k.is_table && params.len() == k.args.len();
        fits.then(|| Part { text, params, grid: k.grid as usize, args: vec![k.args.clone()] })
    }
}

/// The kernel of parts that do not need each other.
pub fn lower(list: Vec<Part>) -> Kernel {
    let mut parts: Vec<Part> = Vec::new();
    for new in list {
        match parts.iter_mut().find(|p| p.text == new.text && p.params == new.params && p.grid == new.grid) {
            Some(p) => p.args.extend(new.args),
            None => parts.push(new),
        }
    }
    let mut source = String::new();
    for (i, p) in parts.iter().enumerate() {
        let text = p.text.replace("blockIdx.x", "block");
        let _ = write!(source, "FN void part{i}(unsigned block, {}) {{\n{text}}}\n", p.params.join(", "));
    }
    let args: Vec<Arg> = parts.iter().flat_map(|p| p.args.iter().flatten().copied()).collect();
    let _ = write!(
        source,
        "struct Table {{ void* at[{}]; }};\n\
         extern \"C\" __global__ void __launch_bounds__({}) run(const __grid_constant__ Table t) {{\n",
        args.len(),
        pointwise::BLOCK
    );
    let (mut blocks, mut first) = (0, 0);
    for (i, p) in parts.iter().enumerate() {
        let (n, count) = (p.params.len(), p.args.len());
        let at = |(k, param): (usize, &String)| {
            let ty = param.rsplit_once(' ').map_or("", |(ty, _)| ty).replace(" __restrict__", "");
            format!("({ty})t.at[{first} + k * {n} + {k}]")
        };
        let list: Vec<String> = p.params.iter().enumerate().map(at).collect();
        let end = blocks + p.grid * count;
        let _ = write!(
            source,
            "if (blockIdx.x < {end}u) {{\nconst unsigned b = blockIdx.x - {blocks}u, k = b / {grid}u;\n\
             return part{i}(b % {grid}u, {});\n}}\n",
            list.join(", "),
            grid = p.grid
        );
        blocks = end;
        first += n * count;
    }
    source += "}\n";
    Kernel { is_table: true, ..Kernel::new(source, blocks, pointwise::BLOCK, args) }
}
