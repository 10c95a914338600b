//! Graphs as drawings: DOT for Graphviz, and SVG with our own layout.
//!
//! Numbers that a node takes as constants stand in its box instead of having one of their own,
//! and a value that is used far below appears there again as a small mark, so that the arrows stay
//! short. Sub-graphs follow as drawings of their own.

mod layout;
mod svg;

pub use svg::to_svg;

use crate::{Attr, CONST, DType, FlatNode, Graph, INPUT, Meaning, Site, Slot, Type};
use std::fmt::Write;
use std::sync::Arc;

/// Boxes drawn at most in one drawing; a browser would choke on more.
const BOXES_MAX: usize = 1000;
/// Longest line of text in a box, in characters.
const LINE_MAX: usize = 44;

/// What sort of box it is: its color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Input,
    Const,
    Scalar,
    View,
    Reduce,
    Kernel,
    Composite,
    Control,
    Output,
    Mark,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Input,
        Kind::Const,
        Kind::Scalar,
        Kind::View,
        Kind::Reduce,
        Kind::Kernel,
        Kind::Composite,
        Kind::Control,
        Kind::Output,
        Kind::Mark,
    ];
    fn of(n: &FlatNode) -> Kind {
        match n.op.meaning {
            Meaning::Input => Kind::Input,
            Meaning::Const => Kind::Const,
            Meaning::Scalar(_) => Kind::Scalar,
            Meaning::View(_) | Meaning::Recast => Kind::View,
            Meaning::Reduce(_) => Kind::Reduce,
            Meaning::Kernel(_) => Kind::Kernel,
            Meaning::Composite(_) => Kind::Composite,
            Meaning::Control(_) => Kind::Control,
        }
    }
    /// Its name in the legend.
    fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Const => "constant",
            Kind::Scalar => "elementwise",
            Kind::View => "view",
            Kind::Reduce => "reduction",
            Kind::Kernel => "kernel",
            Kind::Composite => "composite",
            Kind::Control => "control",
            Kind::Output => "output",
            Kind::Mark => "value from above",
        }
    }
    /// Fill and border.
    fn colors(self) -> (&'static str, &'static str) {
        match self {
            Kind::Input => ("#dbe9fb", "#4a7fc1"),
            Kind::Const => ("#eeeeee", "#8a8a8a"),
            Kind::Scalar => ("#fff2c9", "#c79a1b"),
            Kind::View => ("#e3f4e1", "#5c9e57"),
            Kind::Reduce => ("#fde1d1", "#d0703a"),
            Kind::Kernel => ("#e7def8", "#7a58c2"),
            Kind::Composite => ("#fbdce8", "#c24a7c"),
            Kind::Control => ("#d6f1f0", "#2f8f8c"),
            Kind::Output => ("#3c4454", "#3c4454"),
            Kind::Mark => ("#ffffff", "#9aa3b2"),
        }
    }
}

/// One box: its lines, and what a pointer over it shows.
struct Item {
    kind: Kind,
    /// The value and the op, or the only line.
    head: String,
    /// Type, attributes, line of the program.
    lines: Vec<String>,
    title: String,
}

/// What is drawn of one graph.
struct Sketch {
    items: Vec<Item>,
    /// From, to, and a label where it is not the first output.
    edges: Vec<(usize, usize, String)>,
    /// Nodes left out.
    left_out: usize,
}

fn cut(s: &str) -> String {
    if s.chars().count() <= LINE_MAX { s.to_string() } else { s.chars().take(LINE_MAX - 1).chain(['…']).collect() }
}

/// The number a value is, if it is a constant of one element.
fn number(g: &Graph, s: Slot) -> Option<String> {
    let l = g.constant(s).filter(|l| l.count() == 1)?;
    let x = l.to_f64()[0];
    Some(match l.dtype() {
        d if d.is_complex() => l.to_complex()[0].to_string(),
        DType::F64 => x.to_string(),
        d if d.is_float() => (x as f32).to_string(),
        _ => l.to_ints()[0].to_string(),
    })
}

/// `main.rs:4` of `src/main.rs:4:9`.
fn short(site: Site) -> Option<String> {
    if site == Site::UNKNOWN {
        return None;
    }
    let file = site.file.rsplit(['/', '\\']).next().unwrap_or(site.file);
    Some(format!("{file}:{}", site.line))
}

fn attribute(name: &str, a: &Attr) -> String {
    match a {
        Attr::Graph(g) => format!("{name}: {} nodes", g.nodes.len()),
        Attr::Literal(l) => format!("{name}: {}{}", l.dtype(), l.shape()),
        Attr::Bool(x) => format!("{name}: {x}"),
        Attr::Int(x) => format!("{name}: {x}"),
        Attr::Float(x) => format!("{name}: {x}"),
        Attr::Str(x) => format!("{name}: {x:?}"),
        Attr::Ints(x) => format!("{name}: {:?}", x.as_slice()),
        Attr::DType(x) => format!("{name}: {x}"),
        Attr::Custom(x) => format!("{name}: {x:?}"),
        Attr::Peers(x) => format!("{name}: {x:?}"),
    }
}

fn item(g: &Graph, i: usize) -> Item {
    let n = &g.nodes[i];
    let numbers: Vec<Option<String>> = n.inputs.iter().map(|&s| number(g, s)).collect();
    let mut head = format!("%{i} {}", n.op.name);
    if n.op == &INPUT {
        let name = n.attrs.str("name").unwrap_or("");
        head = if name.is_empty() { head } else { format!("%{i} {name}") };
    } else if numbers.iter().any(Option::is_some) {
        let args: Vec<&str> = numbers.iter().map(|x| x.as_deref().unwrap_or("·")).collect();
        let _ = write!(head, " ({})", args.join(", "));
    }
    let types: Vec<String> = n.outs.iter().map(Type::to_string).collect();
    let mut lines = vec![types.join(" ")];
    if n.op != &INPUT && n.op != &CONST && n.attrs.iter().next().is_some() {
        lines.push(n.attrs.iter().map(|(k, v)| attribute(k, v)).collect::<Vec<_>>().join("  "));
    }
    lines.extend(short(n.site));
    let title = format!("%{i} = {} : {}\n{}", n.op.name, types.join(", "), n.op.doc);
    Item { kind: Kind::of(n), head: cut(&head), lines: lines.iter().map(|l| cut(l)).collect(), title }
}

/// Boxes and arrows of a graph, constants of one element folded into their users.
fn sketch(g: &Graph) -> Sketch {
    let mut out = Sketch { items: Vec::new(), edges: Vec::new(), left_out: 0 };
    let is_asked = |i: usize| g.outputs.iter().any(|s| s.node as usize == i);
    let mut place: Vec<Option<usize>> = vec![None; g.nodes.len()];
    for (i, n) in g.nodes.iter().enumerate() {
        if n.op == &CONST && number(g, Slot::new(i, 0)).is_some() && !is_asked(i) {
            continue;
        }
        if out.items.len() >= BOXES_MAX {
            out.left_out += 1;
            continue;
        }
        place[i] = Some(out.items.len());
        out.items.push(item(g, i));
        for s in n.inputs.iter() {
            if let Some(from) = place[s.node as usize] {
                let to = out.items.len() - 1;
                let label = if s.out == 0 { String::new() } else { format!(".{}", s.out) };
                if !out.edges.iter().rev().take(n.inputs.len()).any(|e| *e == (from, to, label.clone())) {
                    out.edges.push((from, to, label));
                }
            }
        }
    }
    for (k, s) in g.outputs.iter().enumerate() {
        if let (Some(from), true) = (place[s.node as usize], out.items.len() < BOXES_MAX + 100) {
            let label = if s.out == 0 { String::new() } else { format!(".{}", s.out) };
            out.edges.push((from, out.items.len(), label));
            let head = if g.outputs.len() == 1 { "output".to_string() } else { format!("output {k}") };
            out.items.push(Item { kind: Kind::Output, title: head.clone(), head, lines: vec![] });
        }
    }
    out
}

/// The sub-graphs of a graph with what they are called, one level.
fn children(g: &Graph) -> Vec<(String, &Arc<Graph>)> {
    let all = g.nodes.iter().enumerate().flat_map(|(i, n)| n.attrs.iter().map(move |a| (i, n, a)));
    all.filter_map(|(i, n, (name, a))| match a {
        Attr::Graph(sub) => Some((format!("{name} of %{i} {}", n.op.name), sub)),
        _ => None,
    })
    .collect()
}

fn dot_escaped(s: &str) -> String {
    s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The graph in Graphviz' language.
pub fn to_dot(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph talweg {\n  node [shape=box, style=\"filled,rounded\", fontname=\"monospace\", fontsize=10];\n  \
         edge [color=\"#8a93a3\", fontname=\"monospace\", fontsize=9];\n",
    );
    let mut count = 0;
    dot_into(&mut out, graph, "", &mut count);
    out.push_str("}\n");
    out
}

fn dot_into(out: &mut String, g: &Graph, title: &str, count: &mut usize) {
    let id = *count;
    *count += 1;
    let s = sketch(g);
    if id > 0 {
        let _ = writeln!(out, "  subgraph cluster_{id} {{\n  label=\"{}\";", dot_escaped(title));
    }
    for (i, item) in s.items.iter().enumerate() {
        let (fill, border) = item.kind.colors();
        let text = [std::slice::from_ref(&item.head), &item.lines].concat().join("\n");
        let white = if item.kind == Kind::Output { ", fontcolor=white" } else { "" };
        let (text, title) = (dot_escaped(&text), dot_escaped(&item.title));
        let _ = writeln!(
            out,
            "  g{id}_{i} [label=\"{text}\", tooltip=\"{title}\", fillcolor=\"{fill}\", color=\"{border}\"{white}];"
        );
    }
    for (from, to, label) in &s.edges {
        let label = if label.is_empty() { String::new() } else { format!(" [label=\"{label}\"]") };
        let _ = writeln!(out, "  g{id}_{from} -> g{id}_{to}{label};");
    }
    if s.left_out > 0 {
        let _ = writeln!(out, "  g{id}_more [label=\"… and {} more nodes\", shape=plain, style=\"\"];", s.left_out);
    }
    if id > 0 {
        out.push_str("  }\n");
    }
    for (name, sub) in children(g) {
        dot_into(out, sub, &name, count);
    }
}
