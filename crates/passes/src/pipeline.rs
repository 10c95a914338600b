//! The recipe: every stage by name, in order.

use crate::{
    Claims, Eval, Pattern, decompose, deduplicate, fold, has_complex, prune, recognize, simplify, split_complex,
};
use ir::{Error, Graph, Result};

/// What a graph looks like after each stage.
pub struct Stage {
    /// The pass's name.
    pub name: &'static str,
    /// Its result.
    pub graph: Graph,
}

/// Runs every stage and keeps each result, for `talweg explain`. The last is what a device
/// compiles.
pub fn stages(graph: &Graph, patterns: &[Pattern], claims: Claims, eval: Eval) -> Result<Vec<Stage>> {
    let mut out: Vec<Stage> = Vec::new();
    each_stage(graph, patterns, claims, eval, &mut |name, g| out.push(Stage { name, graph: g.clone() }))?;
    Ok(out)
}

/// The graph a device compiles.
pub fn optimize_with(graph: &Graph, patterns: &[Pattern], claims: Claims, eval: Eval) -> Result<Graph> {
    each_stage(graph, patterns, claims, eval, &mut |_, _| {})
}

/// The graph a device compiles, without looking for patterns.
pub fn optimize(graph: &Graph, claims: Claims, eval: Eval) -> Result<Graph> {
    optimize_with(graph, &[], claims, eval)
}

/// Runs every stage; `see` is shown each result.
fn each_stage(
    graph: &Graph,
    patterns: &[Pattern],
    claims: Claims,
    eval: Eval,
    see: &mut dyn FnMut(&'static str, &Graph),
) -> Result<Graph> {
    let mut step = |name, g: Result<Graph>| -> Result<Graph> {
        let g = g?;
        // A pass that breaks a rule is found where it does so, not where a device stumbles.
        if cfg!(debug_assertions) {
            g.verify().map_err(|e| Error { message: format!("after {name}: {}", e.message), ..e })?;
        }
        see(name, &g);
        Ok(g)
    };
    let paired = if has_complex(graph) { Some(step("split_complex", split_complex(graph))?) } else { None };
    let graph = paired.as_ref().unwrap_or(graph);
    // Forms are found among the ops as the program wrote them, in one spelling.
    let g = step("simplify", simplify(graph))?;
    let g = step("deduplicate", Ok(deduplicate(&g)))?;
    let g = step("recognize", recognize(&g, patterns, claims))?;
    let g = step("decompose", decompose(&g, claims))?;
    let g = step("prune", Ok(prune(&g)))?;
    let g = step("fold", fold(&g, eval))?;
    let g = step("simplify", simplify(&g))?;
    let g = step("deduplicate", Ok(deduplicate(&g)))?;
    step("prune", Ok(prune(&g)))
}
