//! Several loops that do not need each other as one launch: each has its own blocks. An optimizer's
//! steps for many parameters become a few launches.

use super::body::{Body, Writer};
use super::{Arg, Kernel, points, tiles};
use ir::Graph;
use passes::{Loop, Step};
use std::fmt::Write;

/// True for a loop that reduces and turns nothing, and so is one kernel that wants no memory of its
/// own.
pub fn is_plain(l: &Loop) -> bool {
    !tiles::fits(l) && !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }))
}

/// Loops with the same text, one after the other.
struct Part {
    text: String,
    params: Vec<String>,
    /// Blocks of each.
    grid: usize,
    args: Vec<Vec<Arg>>,
}

/// The kernel of plain loops, each with whether a result may lie where an operand does.
pub fn lower(loops: &[(&Loop, bool)], graph: &Graph) -> Kernel {
    let mut parts: Vec<Part> = Vec::new();
    for &(l, in_place) in loops {
        let b = Body::new(l, graph, in_place, |_| true, true);
        let (w, grid) = points::plain(&b);
        let (text, params, args) = Writer::parts(w);
        match parts.iter_mut().find(|p| p.text == text && p.params == params && p.grid == grid) {
            Some(p) => p.args.push(args),
            None => parts.push(Part { text, params, grid, args: vec![args] }),
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
        points::BLOCK
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
    Kernel { source, grid: blocks as u32, block: points::BLOCK as u32, args, is_table: true, is_move: false }
}
