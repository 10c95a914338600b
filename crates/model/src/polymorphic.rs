//! Shape-polymorphic graphs: one graph for every value of its free dimensions.
//!
//! A program is traced at several sizes. The traces must agree in everything but numbers, and each number that varies
//! must be a simple function of sizes that the graph knows before it: a free dimension, or a dimension of an earlier
//! value. [`Polymorphic::at`] then computes the numbers for any sizes and infers all types again.

use ir::{Attr, Attrs, Call, Error, ErrorKind, FlatNode, Graph, Literal, Op, Result, Site, Slot, Type};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `⌊times · Π symbols / over⌋ + plus`. Symbols are numbered in the order in which [`Polymorphic::at`] learns them: free
/// dimensions first, then the dimensions of every value in the order of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expr {
    symbols: Vec<u32>,
    times: i64,
    over: i64,
    plus: i64,
}

/// A number of the graph that depends on free dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hole {
    /// The node, counted through sub-graphs.
    node: u32,
    attr: String,
    index: u32,
    expr: Expr,
    /// Whether the number is the reciprocal of the expression: a mean's factor.
    is_reciprocal: bool,
}

/// A graph for every value of its free dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Polymorphic {
    graph: Graph,
    free: usize,
    holes: Vec<Hole>,
}

/// What an input of the graph is.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// The argument with that number.
    Argument(usize),
    /// A weight, by name.
    Weight(String, Literal),
}

/// More symbols in a product than this are not looked for.
const FACTORS_MAX: usize = 3;
/// Divisors that are looked for: strides, patches, heads.
const DIVISORS: std::ops::RangeInclusive<i64> = 2..=256;
/// Distinct symbols that are tried in products.
const DISTINCT_MAX: usize = 64;

impl Expr {
    fn constant(plus: i64) -> Expr {
        Expr { symbols: Vec::new(), times: 0, over: 1, plus }
    }
    /// Its value, if it does not overflow and every symbol is known.
    fn value(&self, known: impl Fn(u32) -> Option<i64>) -> Option<i64> {
        let mut product = self.times;
        for &s in &self.symbols {
            product = product.checked_mul(known(s)?)?;
        }
        if self.over <= 0 { None } else { product.div_euclid(self.over).checked_add(self.plus) }
    }
    /// The free dimension it equals, if it is one.
    pub fn dimension(&self) -> Option<usize> {
        match self.symbols[..] {
            [s] if (self.times, self.over, self.plus) == (1, 1, 0) => Some(s as usize),
            _ => None,
        }
    }
    /// The number it always is, if it is one.
    pub fn fixed(&self) -> Option<i64> {
        (self.symbols.is_empty() || self.times == 0).then_some(self.plus)
    }
}

/// The values a symbol has at each trace.
type Column = Vec<i64>;

/// What is known while traces are compared.
struct Symbols {
    columns: Vec<Column>,
    /// The first symbol of each distinct column that varies.
    distinct: Vec<u32>,
}

impl Symbols {
    fn push(&mut self, column: Column) {
        let is_varying = column.iter().any(|v| *v != column[0]);
        if is_varying && !self.distinct.iter().any(|&d| self.columns[d as usize] == column) {
            self.distinct.push(self.columns.len() as u32);
        }
        self.columns.push(column);
    }
    fn column(&self, s: u32) -> &Column {
        &self.columns[s as usize]
    }

    /// The simplest expression that has these values.
    fn fit(&self, want: &Column) -> Option<Expr> {
        if want.iter().all(|v| *v == want[0]) {
            return Some(Expr::constant(want[0]));
        }
        let holds = |e: &Expr| (0..want.len()).all(|k| e.value(|s| Some(self.column(s)[k])) == Some(want[k]));
        let one = |s: u32, times, over, plus| Expr { symbols: vec![s], times, over, plus };
        let candidates = |s: u32| {
            let c = self.column(s);
            let j = (1..c.len()).find(|&j| c[j] != c[0])?;
            let (rise, run) = (want[j] - want[0], c[j] - c[0]);
            if rise % run != 0 || rise == 0 {
                return None;
            }
            let times = rise / run;
            Some(one(s, times, 1, want[0] - times * c[0])).filter(holds)
        };
        let floors = |s: u32| {
            let c = self.column(s);
            DIVISORS.map(|over| one(s, 1, over, want[0] - c[0].div_euclid(over))).find(holds)
        };
        let symbols = &self.distinct[..self.distinct.len().min(DISTINCT_MAX)];
        let equal = symbols.iter().map(|&s| one(s, 1, 1, 0)).find(|e| holds(e));
        equal
            .or_else(|| symbols.iter().find_map(|&s| candidates(s)))
            .or_else(|| self.product(want, symbols, &holds))
            .or_else(|| symbols.iter().find_map(|&s| floors(s)))
    }

    /// A multiple, or a part, of a product of symbols.
    fn product(&self, want: &Column, symbols: &[u32], holds: &dyn Fn(&Expr) -> bool) -> Option<Expr> {
        let mut partial: Vec<Vec<u32>> = symbols.iter().map(|&s| vec![s]).collect();
        for _ in 1..=FACTORS_MAX {
            for factors in &partial {
                let base: i64 = factors.iter().map(|&s| self.column(s)[0]).product();
                let (times, over) = match (want[0], base) {
                    (w, b) if b != 0 && w % b == 0 => (w / b, 1),
                    (w, b) if w != 0 && b % w == 0 => (1, b / w),
                    _ => continue,
                };
                let e = Expr { symbols: factors.clone(), times, over, plus: 0 };
                if holds(&e) {
                    return Some(e);
                }
            }
            // Factors in order, so that each product is tried once.
            let longer = |f: &Vec<u32>| -> Vec<Vec<u32>> {
                let more = symbols.iter().filter(|s| f.last().is_none_or(|last| *s >= last));
                more.map(|&s| [&f[..], &[s]].concat()).collect()
            };
            partial = partial.iter().flat_map(longer).collect();
        }
        None
    }
}

/// Comparing traces.
struct Fit<'a> {
    names: &'a [String],
    symbols: Symbols,
    holes: Vec<Hole>,
    /// Nodes so far, sub-graphs included.
    nodes: u32,
}

fn refuse(e: String, site: Site) -> Error {
    Error::new(ErrorKind::Shape, e).in_op("export").at(site)
}

impl Fit<'_> {
    fn free(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|n| format!("{n:?}")).collect();
        names.join(", ")
    }
    fn structure(&self, what: &str, site: Site) -> Error {
        let e = format!(
            "what the program does depends on the size of {}: {what}. Export it with these sizes fixed, or write it \
             without branches on sizes",
            self.free()
        );
        refuse(e, site)
    }

    fn graphs(&mut self, traces: &[&Graph]) -> Result<()> {
        let base = traces[0];
        for other in &traces[1..] {
            if other.nodes.len() != base.nodes.len() || other.outputs != base.outputs || other.inputs != base.inputs {
                let differs = base.nodes.iter().zip(&other.nodes).find(|(a, b)| a.op != b.op || a.inputs != b.inputs);
                let site = differs.map_or(Site::UNKNOWN, |(a, _)| a.site);
                let e = format!("{} ops at one size, {} at another", base.nodes.len(), other.nodes.len());
                return Err(self.structure(&e, site));
            }
        }
        for i in 0..base.nodes.len() {
            let nodes: Vec<&FlatNode> = traces.iter().map(|g| &g.nodes[i]).collect();
            self.node(&nodes)?;
        }
        Ok(())
    }

    fn node(&mut self, nodes: &[&FlatNode]) -> Result<()> {
        let base = nodes[0];
        if let Some(other) = nodes.iter().find(|n| n.op != base.op || n.inputs != base.inputs) {
            let e = format!("{} at one size, {} at another", base.op.name, other.op.name);
            return Err(self.structure(&e, base.site));
        }
        for (k, (name, attr)) in base.attrs.iter().enumerate() {
            if let Attr::Graph(_) = attr {
                let graphs = nodes.iter().map(|n| graph_at(n, k)).collect::<Option<Vec<&Graph>>>();
                let graphs = graphs.ok_or_else(|| self.structure("another kind of sub-graph", base.site))?;
                self.graphs(&graphs)?;
            } else {
                let all = nodes.iter().map(|n| n.attrs.iter().nth(k).map(|(_, a)| a)).collect::<Option<Vec<&Attr>>>();
                let all = all.ok_or_else(|| self.structure("other attributes", base.site))?;
                self.attr(base, name, &all)?;
            }
        }
        self.nodes += 1;
        for (o, ty) in base.outs.iter().enumerate() {
            if nodes.iter().any(|n| n.outs[o].shape.rank() != ty.shape.rank() || n.outs[o].dtype != ty.dtype) {
                return Err(self.structure("a value has another type", base.site));
            }
            for axis in 0..ty.shape.rank() {
                self.symbols.push(nodes.iter().map(|n| n.outs[o].shape[axis] as i64).collect());
            }
        }
        Ok(())
    }

    fn attr(&mut self, node: &FlatNode, name: &'static str, all: &[&Attr]) -> Result<()> {
        if all.iter().all(|a| *a == all[0]) {
            return Ok(());
        }
        let other = || self.structure(&format!("{} has another {name}", node.op.name), node.site);
        match all[0] {
            Attr::Int(_) => {
                let column = all.iter().map(|a| if let Attr::Int(v) = a { Some(*v) } else { None });
                let column = column.collect::<Option<Column>>().ok_or_else(other)?;
                self.hole(node, name, 0, &column)
            }
            Attr::Ints(first) => {
                let rows = all.iter().map(|a| if let Attr::Ints(v) = a { Some(v) } else { None });
                let rows = rows.collect::<Option<Vec<_>>>().ok_or_else(other)?;
                if rows.iter().any(|r| r.len() != first.len()) {
                    return Err(other());
                }
                for index in 0..first.len() {
                    let column: Column = rows.iter().map(|r| r[index]).collect();
                    if column.iter().any(|v| *v != column[0]) {
                        self.hole(node, name, index as u32, &column)?;
                    }
                }
                Ok(())
            }
            Attr::Float(_) | Attr::Literal(_) => {
                let numbers = all.iter().map(|a| number(a)).collect::<Option<Vec<f64>>>().ok_or_else(|| {
                    let e = format!(
                        "a constant tensor depends on the size of {}: compute it from the inputs instead",
                        self.free()
                    );
                    refuse(e, node.site)
                })?;
                self.number(node, name, &numbers)
            }
            _ => Err(other()),
        }
    }

    fn hole(&mut self, node: &FlatNode, attr: &str, index: u32, column: &Column) -> Result<()> {
        let Some(expr) = self.symbols.fit(column) else {
            let e = format!(
                "{}: {attr}[{index}] is {column:?} at the traced sizes, which is no simple function of the size of {}",
                node.op.name,
                self.free()
            );
            return Err(refuse(e, node.site));
        };
        self.holes.push(Hole { node: self.nodes, attr: attr.into(), index, expr, is_reciprocal: false });
        Ok(())
    }

    fn number(&mut self, node: &FlatNode, attr: &str, numbers: &[f64]) -> Result<()> {
        let whole = |x: f64| (x.fract() == 0.0 && x.abs() < 1e15).then_some(x as i64);
        let direct = numbers.iter().map(|&x| whole(x)).collect::<Option<Column>>();
        // A factor such as 1/n is stored rounded to its type.
        let near = |x: f64| {
            let n = (1.0 / x).round();
            ((1.0 / n - x).abs() <= x.abs() * 1e-6).then(|| whole(n)).flatten()
        };
        let (column, is_reciprocal) = match direct {
            Some(c) => (Some(c), false),
            None => (numbers.iter().map(|&x| near(x)).collect::<Option<Column>>(), true),
        };
        let fitted = column.and_then(|c| self.symbols.fit(&c));
        let Some(expr) = fitted else {
            let e = format!(
                "{}: a constant is {numbers:?} at the traced sizes, which is no simple function of the size of {}",
                node.op.name,
                self.free()
            );
            return Err(refuse(e, node.site));
        };
        self.holes.push(Hole { node: self.nodes, attr: attr.into(), index: 0, expr, is_reciprocal });
        Ok(())
    }
}

fn graph_at<'a>(n: &&'a FlatNode, k: usize) -> Option<&'a Graph> {
    if let Some((_, Attr::Graph(g))) = n.attrs.iter().nth(k) { Some(g) } else { None }
}

/// The number an attribute is, if it is one.
fn number(a: &Attr) -> Option<f64> {
    match a {
        Attr::Float(x) => Some(*x),
        Attr::Literal(l) if l.count() == 1 && !l.dtype().is_complex() => Some(l.to_f64()[0]),
        _ => None,
    }
}

impl Polymorphic {
    /// A graph without free dimensions.
    pub fn fixed(graph: Graph) -> Polymorphic {
        Polymorphic { graph, free: 0, holes: Vec::new() }
    }

    /// From traces of one program, each at other sizes of the free dimensions.
    pub fn fit(names: &[String], traces: &[(Vec<usize>, Graph)]) -> Result<Polymorphic> {
        assert!(!traces.is_empty() && traces.iter().all(|(sizes, _)| sizes.len() == names.len()));
        let mut symbols = Symbols { columns: Vec::new(), distinct: Vec::new() };
        for d in 0..names.len() {
            symbols.push(traces.iter().map(|(sizes, _)| sizes[d] as i64).collect());
        }
        let graphs: Vec<&Graph> = traces.iter().map(|(_, g)| g).collect();
        let mut fit = Fit { names, symbols, holes: Vec::new(), nodes: 0 };
        fit.graphs(&graphs)?;
        let made = Polymorphic { graph: graphs[0].clone(), free: names.len(), holes: fit.holes };
        for (sizes, graph) in traces {
            if made.at(sizes)? != *graph {
                return Err(Error::bug(format!("the graph at sizes {sizes:?} is not the one that was traced")));
            }
        }
        Ok(made)
    }

    /// The graph at the sizes of the first trace.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// How many free dimensions it has.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The numbers that depend on free dimensions, as JSON.
    pub fn holes(&self) -> Result<serde_json::Value> {
        serde_json::to_value(&self.holes).map_err(|e| Error::bug(e.to_string()))
    }
    /// From the graph at some sizes and what [`Polymorphic::holes`] returned. Nothing is trusted: [`Polymorphic::at`]
    /// checks every type.
    pub fn from_parts(graph: Graph, free: usize, holes: &serde_json::Value) -> Result<Polymorphic> {
        let holes: Vec<Hole> =
            serde_json::from_value(holes.clone()).map_err(|e| Error::format(format!("sizes of the graph: {e}")))?;
        if !holes.is_sorted_by_key(|h| h.node) {
            return Err(Error::format("sizes of the graph: not in the order of its nodes"));
        }
        Ok(Polymorphic { graph, free, holes })
    }

    /// The graph at these sizes of the free dimensions.
    pub fn at(&self, sizes: &[usize]) -> Result<Graph> {
        if sizes.len() != self.free {
            return Err(Error::value(format!("{} sizes are needed, but {} were given", self.free, sizes.len())));
        }
        let known = sizes.iter().map(|&s| s as i64).collect();
        let mut build = Build { holes: &self.holes, known, nodes: 0 };
        let graph = build.graph(&self.graph)?;
        if let Some(h) = build.holes.first() {
            return Err(Error::format(format!("sizes of the graph: there is no node {}", h.node)));
        }
        graph.verify()?;
        Ok(graph)
    }
}

/// Computing a graph for given sizes.
struct Build<'a> {
    /// What is not filled yet.
    holes: &'a [Hole],
    known: Vec<i64>,
    nodes: u32,
}

impl Build<'_> {
    fn graph(&mut self, of: &Graph) -> Result<Graph> {
        let mut out = Graph { inputs: of.inputs.clone(), outputs: of.outputs.clone(), ..Graph::new() };
        out.nodes.reserve(of.nodes.len());
        for n in &of.nodes {
            let attrs = self.attrs(n)?;
            let types: Vec<Type> = n.inputs.iter().map(|&s| type_of(&out, s)).collect::<Result<_>>()?;
            let outs = n.op.check(&Call { types: &types, attrs: &attrs }).map_err(|e| e.at(n.site))?;
            self.known.extend(outs.iter().flat_map(|t| t.shape.iter().map(|&d| d as i64)));
            out.push_typed(n.op, n.inputs.clone(), attrs, outs, n.site);
        }
        Ok(out)
    }

    fn attrs(&mut self, n: &FlatNode) -> Result<Attrs> {
        let mut attrs = n.attrs.clone();
        for (name, attr) in n.attrs.iter() {
            if let Attr::Graph(g) = attr {
                attrs = attrs.set(name, Arc::new(self.graph(g)?));
            }
        }
        while let Some((hole, rest)) = self.holes.split_first() {
            if hole.node != self.nodes {
                break;
            }
            attrs = self.filled(n.op, attrs, hole)?;
            self.holes = rest;
        }
        self.nodes += 1;
        Ok(attrs)
    }

    fn filled(&self, op: &Op, attrs: Attrs, hole: &Hole) -> Result<Attrs> {
        let bad = |what: &str| Error::format(format!("sizes of the graph: {}: {}: {what}", op.name, hole.attr));
        let name =
            op.attrs.iter().map(|(n, _)| *n).find(|n| *n == hole.attr).ok_or_else(|| bad("no such attribute"))?;
        let known = |s: u32| self.known.get(s as usize).copied();
        let value = hole.expr.value(known).ok_or_else(|| bad("the size cannot be computed"))?;
        let number = if hole.is_reciprocal { 1.0 / value as f64 } else { value as f64 };
        match attrs.get(name) {
            Some(Attr::Int(_)) => Ok(attrs.set(name, value)),
            Some(Attr::Ints(old)) => {
                let mut new = old.clone();
                *new.get_mut(hole.index as usize).ok_or_else(|| bad("no such index"))? = value;
                Ok(attrs.set(name, Attr::Ints(new)))
            }
            Some(Attr::Float(_)) => Ok(attrs.set(name, number)),
            Some(Attr::Literal(l)) if l.count() == 1 => {
                let new = Literal::from_f64(l.dtype(), l.shape().clone(), &[number]);
                Ok(attrs.set(name, new))
            }
            _ => Err(bad("it is no number")),
        }
    }
}

fn type_of(graph: &Graph, s: Slot) -> Result<Type> {
    let ty = graph.nodes.get(s.node as usize).and_then(|n| n.outs.get(s.out as usize));
    ty.cloned().ok_or_else(|| Error::format("the graph uses a value before it is computed"))
}
