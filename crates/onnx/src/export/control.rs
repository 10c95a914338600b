//! Control flow in ONNX: `If` and `Scan`, whose bodies are graphs.

use super::emit::{A, Emitter};
use super::rows::{Node, keeps, unsupported};
use crate::wire::Writer;
use ir::{Error, Graph, Result, Slot};

/// A body of control flow as a graph: `own` inputs are its own, the others are names from outside.
fn body(e: &mut Emitter<'_>, c: &Node<'_>, which: &str, names: &[String], own: usize, keep: usize) -> Result<Vec<u8>> {
    let expanded = |g: &Graph| passes::decompose(g, &|n, t| keeps(n, t));
    let graph = expanded(c.n.attrs.graph(which)?)?;
    let other = e.other_graph().map(|g| expanded(g.nodes[c.at].attrs.graph(which)?)).transpose()?;
    super::check_same(&graph, other.as_ref())?;
    let missing = unsupported(&graph);
    if !missing.is_empty() {
        return Err(Error::value(format!("ONNX has no operators for: {}", missing.join(", "))).in_op("onnx"));
    }
    let prefix = e.unique("body");
    let mut inner = e.enter(other.as_ref());
    let mut given = Vec::new();
    for (i, name) in names.iter().enumerate() {
        given.push(if i < own { format!("{prefix}.in{i}") } else { name.clone() });
    }
    inner.graph(&graph, &given)?;
    let mut outputs = Vec::new();
    for (i, &s) in graph.outputs.iter().take(keep).enumerate() {
        let from = inner.name(s)?;
        let to = format!("{prefix}.out{i}");
        inner.node_to("Identity", &[&from], &[&to], &[]);
        outputs.push((to, s));
    }
    e.leave(&mut inner);
    let mut w = Writer::default();
    inner.nodes.iter().for_each(|n| w.bytes(1, n));
    w.bytes(2, prefix.as_bytes());
    inner.constants.iter().for_each(|(n, v)| w.message(5, |w| super::write_tensor(w, n, v, None)));
    for (i, name) in given.iter().take(own).enumerate() {
        let s = Slot::new(graph.inputs[i] as usize, 0);
        w.message(11, |w| super::write_info(w, name, graph.ty(s), |a| inner.free_name(s, a)));
    }
    for (name, s) in &outputs {
        w.message(12, |w| super::write_info(w, name, graph.ty(*s), |a| inner.free_name(*s, a)));
    }
    Ok(w.0)
}

/// Writes a conditional or a scan; its results are bound.
pub fn control(e: &mut Emitter<'_>, c: &Node<'_>) -> Result<Option<String>> {
    let a = &c.n.attrs;
    let outs: Vec<String> = (0..c.n.outs.len()).map(|_| e.unique("result")).collect();
    let names: Vec<String> = c.x.iter().map(|s| s.to_string()).collect();
    if c.n.op.name == "cond" {
        let keep = c.n.outs.len();
        let then = body(e, c, "then", &names[1..], 0, keep)?;
        let otherwise = body(e, c, "else", &names[1..], 0, keep)?;
        let refs: Vec<&str> = outs.iter().map(String::as_str).collect();
        let attributes = [("then_branch", A::Graph(then)), ("else_branch", A::Graph(otherwise))];
        e.node_to("If", &[c.x[0]], &refs, &attributes);
    } else {
        let (carried, rows, saved) = (a.size("carried")?, a.size("rows")?, a.size("saved")?);
        if rows == 0 {
            return Err(Error::value("a scan without rows has no form in ONNX yet").in_op("onnx"));
        }
        // What is saved for a gradient is not asked for in inference.
        let keep = c.n.outs.len() - saved;
        let graph = body(e, c, "body", &names, carried + rows, keep)?;
        let turn = i64::from(a.bool("reverse")?);
        let (inputs, results) = (vec![turn; rows], vec![turn; keep - carried]);
        let refs: Vec<&str> = outs[..keep].iter().map(String::as_str).collect();
        let attributes = [
            ("body", A::Graph(graph)),
            ("num_scan_inputs", A::Int(rows as i64)),
            ("scan_input_directions", A::Ints(&inputs)),
            ("scan_output_directions", A::Ints(&results)),
        ];
        e.node_to("Scan", &c.x[..carried + rows], &refs, &attributes);
    }
    for (i, name) in outs.into_iter().enumerate() {
        e.bind(Slot::new(c.at, i), name);
    }
    Ok(None)
}
