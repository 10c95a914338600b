//! How a table changes, on its way to the parameter store: the graph of one step of an optimizer or
//! of a program's own update, which any server can run, so neither needs a new server.

use crate::optim::{Rule, Step};
use ir::{Attrs, CONST, Call, Collect, FlatNode, Graph, INPUT, Meaning, Site, Source, Value, Var, collect};
use std::sync::Arc;
use tensor::{DType, Error, Literal, Result, Shape, Tensor, no_grad, placeholder};

/// What an update works on at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A whole table.
    Whole,
    /// Some of its rows, whichever they are.
    Rows,
}

/// Key of the rule for a table's blocks of so many elements in the membership store.
pub fn rule_key(table: u32, len: usize) -> String {
    format!("rule/{table}.{len}")
}

/// One array of a rule's state. The store keeps it in as many elements as the parameter has, of which it may be
/// the first few: a number, or one for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotText {
    /// Its shape.
    pub shape: Shape,
    /// Every element starts with this, or
    pub fill: f32,
    /// they start with these, if not empty.
    pub values: Vec<f32>,
}

/// How one table changes. The graph's inputs are named `param`, `grad` (the mean of what was pushed),
/// `sum` (all of it), `lr`, `t`, `slot0`, `slot1`… and `number0`…; those it does not need are missing. Its
/// outputs are the new values and the slots.
///
/// **Numbers** travel with each update, as the learning rate does: the values of the variables that the rule reads,
/// and its constants once they are others than those of the text. So a schedule, or a program, may change every
/// setting of a rule at each step, and the server computes with the very numbers that a worker alone would use.
pub struct RuleText {
    /// What the graph works on at a time, and its shape.
    pub takes: Takes,
    /// See `takes`.
    pub shape: Shape,
    /// First values of the state.
    pub slots: Vec<SlotText>,
    /// One step; `None` adds what is pushed.
    pub graph: Option<Graph>,
    /// Variables that the rule reads, `number0` and so on; known where it was traced.
    reads: Vec<Arc<Var>>,
}

impl RuleText {
    /// Traces one step of a rule.
    pub fn of(rule: &dyn Rule, shape: &Shape, weight_decay: f64) -> Result<RuleText> {
        let first = rule.slots(shape);
        let mut slots = Vec::with_capacity(first.len());
        for (name, value) in &first {
            let like = value.shape()?;
            let value = value.cast(DType::F32).to_vec::<f32>()?;
            if value.len() > shape.count() {
                let e = format!("slot {name} has {} elements, the parameter {}", value.len(), shape.count());
                return Err(Error::shape(format!("{e}: the store keeps state of the parameter's size at most")));
            }
            let fill = value.first().copied().unwrap_or(0.0);
            let is_flat = value.iter().all(|x| x.to_bits() == fill.to_bits());
            slots.push(SlotText { shape: like, fill, values: if is_flat { Vec::new() } else { value } });
        }
        let input = |name: &str, shape: &Shape| placeholder(name, shape.clone(), DType::F32);
        let (param, grad) = (input("param", shape), input("grad", shape));
        let (lr, t) = (input("lr", &Shape::scalar()), input("t", &Shape::scalar()));
        let state: Vec<Tensor> = slots.iter().enumerate().map(|(i, s)| input(&format!("slot{i}"), &s.shape)).collect();
        let step = Step { param: &param, grad: &grad, slots: &state, lr: &lr, t: &t, weight_decay };
        let (next, state) = no_grad(|| rule.step(&step));
        let mut outs = vec![next.cast(DType::F32).value()?.clone()];
        for s in state {
            outs.push(s.cast(DType::F32).value()?.clone());
        }
        let (graph, reads) = graph_of(&outs)?;
        Ok(RuleText { takes: Takes::Whole, shape: shape.clone(), slots, graph: Some(graph), reads })
    }
    /// The variables that the rule reads.
    pub fn reads(&self) -> &[Arc<Var>] {
        &self.reads
    }
    /// The constants of the rule's graph.
    pub fn constants(&self) -> Vec<f32> {
        let nodes = self.graph.iter().flat_map(|g| &g.nodes);
        nodes.filter_map(constant).collect()
    }
    /// The number of scalar inputs of the graph besides its constants.
    pub fn number_count(&self) -> usize {
        let is_number = |n: &&FlatNode| n.op == &INPUT && n.attrs.str("name").is_ok_and(|n| n.starts_with(NUMBER));
        self.graph.iter().flat_map(|g| &g.nodes).filter(is_number).count()
    }
    /// True if this rule differs from the other in constants only.
    pub fn is_like(&self, other: &RuleText) -> bool {
        let form = |r: &RuleText| {
            let mut graph = numbered(r.graph.as_ref()?, 0);
            // Wherever it was traced.
            graph.nodes.iter_mut().for_each(|n| n.site = Site::UNKNOWN);
            Some(graph.to_string())
        };
        let same = self.reads.len() == other.reads.len()
            && self.reads.iter().zip(&other.reads).all(|(a, b)| Arc::ptr_eq(a, b));
        same && self.shape == other.shape && self.slots == other.slots && form(self) == form(other)
    }

    /// Adds what is pushed to a table of any size.
    pub fn add() -> RuleText {
        RuleText { takes: Takes::Rows, shape: Shape::scalar(), slots: Vec::new(), graph: None, reads: Vec::new() }
    }

    /// Traces a custom update, a function of the values, of the sum of what was pushed, and
    /// of its state, which begins with these numbers.
    pub fn update(
        takes: Takes,
        shape: &Shape,
        state: &[f32],
        f: impl FnOnce(&Tensor, &Tensor, &[Tensor]) -> Result<(Tensor, Vec<Tensor>)>,
    ) -> Result<RuleText> {
        let like = |name: &str| placeholder(name, shape.clone(), DType::F32);
        let (value, sum) = (like("param"), like("sum"));
        let slots: Vec<Tensor> = (0..state.len()).map(|i| like(&format!("slot{i}"))).collect();
        let (next, next_state) = no_grad(|| f(&value, &sum, &slots))?;
        if next_state.len() != state.len() {
            let e = format!("the state has {} parts, the update gives {}", state.len(), next_state.len());
            return Err(Error::value(e).in_op("update"));
        }
        let mut outs = Vec::with_capacity(1 + state.len());
        for (i, new) in std::iter::once(next).chain(next_state).enumerate() {
            let found = new.shape()?;
            if found != *shape {
                let what = if i == 0 { "the new values".to_string() } else { format!("state {}", i - 1) };
                let e = format!("{what} must be {:?}, as the update was given, not {:?}", shape.dims(), found.dims());
                return Err(Error::shape(e).in_op("update"));
            }
            outs.push(new.cast(DType::F32).value()?.clone());
        }
        let slot = |fill: &f32| SlotText { shape: shape.clone(), fill: *fill, values: Vec::new() };
        let (graph, reads) = graph_of(&outs)?;
        if let Some(v) = reads.first() {
            let e = format!("the update reads the variable {}, which servers do not have", v.name());
            return Err(Error::value(format!("{e}: push it, or give a number")).in_op("update"));
        }
        let (slots, graph) = (state.iter().map(slot).collect(), Some(graph));
        Ok(RuleText { takes, shape: shape.clone(), slots, graph, reads })
    }

    /// True if the rule is elementwise: a step depends on the element and the scalars of the step alone, and `part`,
    /// the same rule for a piece of the parameter, does the same: then pieces can go their own ways.
    pub fn is_cut_by(&self, part: &RuleText) -> bool {
        let is_flat = |r: &RuleText| r.slots.iter().all(|s| s.values.is_empty() && s.shape == r.shape);
        let ops = |g: &Graph| g.nodes.iter().map(|n| n.op.name).collect::<Vec<_>>();
        let (Some(all), Some(some)) = (&self.graph, &part.graph) else { return false };
        is_flat(self) && is_flat(part) && ops(all) == ops(some) && is_elementwise(all)
    }

    /// Its bytes: sizes, slots, then the graph.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, n: usize| out.extend_from_slice(&(n as u64).to_le_bytes());
        let sizes = |out: &mut Vec<u8>, shape: &Shape| {
            number(out, shape.rank());
            shape.iter().for_each(|d| number(out, *d));
        };
        number(&mut out, usize::from(self.takes == Takes::Rows));
        sizes(&mut out, &self.shape);
        number(&mut out, self.slots.len());
        for s in &self.slots {
            sizes(&mut out, &s.shape);
            out.extend_from_slice(&s.fill.to_le_bytes());
            number(&mut out, s.values.len());
            s.values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }
        self.graph.iter().for_each(|g| out.extend_from_slice(&g.to_bytes()));
        out
    }
    /// From its bytes; `find` knows the ops.
    pub fn decode(bytes: &[u8]) -> Result<RuleText> {
        let mut rest = bytes;
        let short = || Error::format("a rule is cut short");
        let takes = match number(&mut rest)? {
            0 => Takes::Whole,
            1 => Takes::Rows,
            n => return Err(Error::format(format!("a rule takes a whole table or rows, not {n}"))),
        };
        let shape = sizes(&mut rest)?;
        let mut slots = Vec::new();
        for _ in 0..number(&mut rest)?.min(64) {
            let like = sizes(&mut rest)?;
            let (fill, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            rest = after;
            let len = number(&mut rest)?.checked_mul(4).ok_or_else(short)?;
            let (values, after) = rest.split_at_checked(len).ok_or_else(short)?;
            rest = after;
            let values = Literal::from_bytes(DType::F32, [len / 4], values)?.to_vec::<f32>()?;
            if like.count() > shape.count() || ![0, like.count()].contains(&values.len()) {
                return Err(Error::format("state of a rule is larger than its parameter, or not of its own size"));
            }
            slots.push(SlotText { shape: like, fill: f32::from_le_bytes(*fill), values });
        }
        let is_sum = rest.is_empty() && takes == Takes::Rows && shape.rank() == 0 && slots.is_empty();
        let graph = if is_sum { None } else { Some(Graph::from_bytes(rest, &tensor::find)?) };
        Ok(RuleText { takes, shape, slots, graph, reads: Vec::new() })
    }
}

/// The names of the scalar inputs of a graph.
pub const NUMBER: &str = "number";

/// The value of a node that is a number.
fn constant(n: &FlatNode) -> Option<f32> {
    let value = (n.op == &CONST).then(|| n.attrs.literal("value").ok()).flatten()?;
    let is_number = value.dtype() == DType::F32 && value.shape().rank() == 0;
    is_number.then(|| value.to_vec::<f32>().ok()?.first().copied()).flatten()
}
/// The graph with inputs instead of its constants, numbered from `first` on.
pub fn numbered(graph: &Graph, first: usize) -> Graph {
    let (mut out, mut next) = (graph.clone(), first);
    for n in out.nodes.iter_mut().filter(|n| constant(n).is_some()) {
        (n.op, n.attrs) = (&INPUT, number_attrs(next));
        next += 1;
    }
    out.inputs = (0..out.nodes.len() as u32).filter(|i| out.nodes[*i as usize].op == &INPUT).collect();
    out
}
fn number_attrs(number: usize) -> Attrs {
    let name = format!("{NUMBER}{number}");
    Attrs::new().with("dtype", DType::F32).with("shape", &Shape::scalar()).with("name", name.as_str())
}

/// What computes these from placeholders; tensors of the program become constants, and variables numbers.
fn graph_of(outs: &[Value]) -> Result<(Graph, Vec<Arc<Var>>)> {
    let ir::Collected { mut graph, leaves, .. } = collect(outs, Collect::Later)?;
    let inputs = std::mem::take(&mut graph.inputs);
    let mut reads: Vec<Arc<Var>> = Vec::new();
    for (leaf, node) in leaves.iter().zip(inputs) {
        match leaf.node().source() {
            Source::Placeholder(_) => graph.inputs.push(node),
            Source::Read(v) => {
                let ty = v.ty();
                if ty.dtype != DType::F32 || ty.shape.rank() != 0 {
                    let e = format!(
                        "the rule reads the variable {}, {} of shape {:?}: what servers are told at each step are single f32 \
                         numbers",
                        v.name(),
                        ty.dtype,
                        ty.shape.dims()
                    );
                    return Err(Error::value(e).in_op("optimizer").at(leaf.node().site()));
                }
                graph.nodes[node as usize].attrs = number_attrs(reads.len());
                graph.inputs.push(node);
                reads.push(v.clone());
            }
            _ => {
                let value = leaf.buffer().ok_or_else(|| Error::bug("a leaf without a value"))?.read()?;
                let n = &mut graph.nodes[node as usize];
                (n.op, n.attrs) = (&ir::CONST, Attrs::new().with("value", value));
            }
        }
    }
    Ok((graph, reads))
}

fn is_elementwise(graph: &Graph) -> bool {
    let is_one = |t: &ir::Type| t.shape.count() == 1;
    graph.nodes.iter().all(|n| match n.op.meaning {
        Meaning::Input => true,
        // Where sizes differ they are repeated along some axis.
        Meaning::Scalar(_) => graph.input_types(n).iter().all(|t| is_one(t) || t.shape == n.outs[0].shape),
        Meaning::Const => n.outs.iter().all(is_one),
        Meaning::View(_) => graph.input_types(n).iter().all(is_one),
        Meaning::Composite(expand) => {
            let types = graph.input_types(n);
            let args: Vec<Value> = types.iter().map(|t| Value::placeholder("", t.clone(), n.site)).collect();
            let parts = expand(&Call { types: &types, attrs: &n.attrs }, &args);
            parts.and_then(|outs| collect(&outs, Collect::Later)).is_ok_and(|c| is_elementwise(&c.graph))
        }
        _ => false,
    })
}

fn sizes(rest: &mut &[u8]) -> Result<Shape> {
    let rank = number(rest)?.min(64);
    Ok(Shape::from((0..rank).map(|_| number(rest)).collect::<Result<Vec<_>>>()?.as_slice()))
}
fn number(rest: &mut &[u8]) -> Result<usize> {
    let (n, after) = rest.split_first_chunk::<8>().ok_or_else(|| Error::format("a rule is cut short"))?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*n)).map_err(|_| Error::format("a number in a rule is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Adadelta, Adafactor, Adagrad, Adam, AdamW, Lion, NAdam, RmsProp, Sgd};

    #[test]
    fn rules_that_take_each_element_by_itself_are_told() {
        let shape = Shape::from([3usize, 4]);
        let text = |rule: &dyn Rule, shape: &Shape| RuleText::of(rule, shape, 0.1).unwrap();
        let is_elementwise = |rule: &dyn Rule| text(rule, &shape).is_cut_by(&text(rule, &Shape::from([4usize])));
        let rules: [&dyn Rule; 8] = [
            &Sgd::default(),
            &Sgd { momentum: 0.9, nesterov: true, ..Sgd::default() },
            &Adagrad::default(),
            &Adam::default(),
            &AdamW::default(),
            &RmsProp { centered: true, ..RmsProp::default() },
            &Adadelta::default(),
            &Lion::default(),
        ];
        assert_eq!(rules.map(is_elementwise), [true; 8]);
        // One keeps a number for the whole parameter, the other looks at all of it.
        assert!(!is_elementwise(&NAdam::default()) && !is_elementwise(&Adafactor::default()));
        struct Scaled(Tensor);
        impl Rule for Scaled {
            fn lr(&self) -> f64 {
                1.0
            }
            fn slots(&self, _: &Shape) -> Vec<(&'static str, Tensor)> {
                Vec::new()
            }
            fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
                (s.param - s.grad * &self.0, Vec::new())
            }
        }
        assert!(is_elementwise(&Scaled(Tensor::from(2.0f32))));
        assert!(!is_elementwise(&Scaled(Tensor::from([1.0f32, 2.0, 3.0, 4.0]))));
        let v = tensor::Variable::new("slowness", Tensor::from(2.0f32)).unwrap();
        let text = RuleText::of(&Scaled(v.tensor()), &shape, 0.0).unwrap();
        assert_eq!((text.reads().len(), text.number_count(), text.constants()), (1, 1, vec![]));
        assert!(is_elementwise(&Scaled(v.tensor())));
        let v = tensor::Variable::new("slowness", Tensor::from([2.0f32; 4])).unwrap();
        let e = RuleText::of(&Scaled(v.tensor()), &shape, 0.0).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains("the rule reads the variable slowness, f32 of shape [4]"), "{e}");
    }

    #[test]
    fn a_rule_with_other_numbers_is_the_same_rule() {
        let text = |rule: &dyn Rule, decay: f64| RuleText::of(rule, &Shape::from([3usize]), decay).unwrap();
        let one = text(&Adam::default(), 0.1);
        let other = text(&Adam { betas: (0.8, 0.99), eps: 1e-6, ..Adam::default() }, 0.2);
        assert!(one.is_like(&other) && one.constants().len() == other.constants().len());
        assert_ne!(one.constants(), other.constants());
        assert!(!one.is_like(&text(&Adam::default(), 0.0)), "without decay there is less to compute");
        assert!(!one.is_like(&text(&AdamW::default(), 0.1)));
        let sgd = |momentum| Sgd { momentum, ..Sgd::default() };
        let (a, b) = (text(&sgd(0.9), 0.1), text(&sgd(0.8), 0.05));
        assert!(a.is_like(&b) && a.is_like(&Site::here().scope(|| text(&sgd(0.7), 0.2))), "wherever it was traced");
        assert!(!text(&sgd(0.0), 0.0).is_like(&text(&sgd(0.9), 0.0)), "one of them keeps state");
    }

    #[test]
    fn a_rule_reads_back() {
        let rules: [Box<dyn Rule>; 5] = [
            Box::new(Sgd::default()),
            Box::new(Adam::default()),
            Box::new(NAdam::default()),
            Box::new(Adafactor::default()),
            Box::new(Adagrad { initial_accumulator_value: 0.5, ..Adagrad::default() }),
        ];
        for rule in rules {
            let text = RuleText::of(&*rule, &Shape::from([2usize, 3]), 0.1).unwrap();
            let bytes = text.encode();
            let back = RuleText::decode(&bytes).unwrap();
            assert_eq!((&back.shape, &back.slots), (&text.shape, &text.slots));
            assert_eq!(back.graph.unwrap().to_string(), text.graph.unwrap().to_string());
            for n in 0..bytes.len().min(60) {
                assert!(RuleText::decode(&bytes[..n]).is_err());
            }
        }
    }

    #[test]
    fn an_update_is_a_function_of_its_arguments() {
        let shape = Shape::from([2usize, 3]);
        let of = |f: fn(&Tensor, &Tensor, &[Tensor]) -> (Tensor, Vec<Tensor>)| {
            RuleText::update(Takes::Rows, &shape, &[0.5], |v, s, state| Ok(f(v, s, state)))
        };
        let text = of(|v, sum, s| (v - sum / (&s[0] + 1.0), vec![&s[0] + sum.square()])).unwrap();
        let back = RuleText::decode(&text.encode()).unwrap();
        assert_eq!((back.takes, &back.slots), (Takes::Rows, &text.slots));
        let refused = |e: Result<RuleText>| e.err().unwrap().to_string();
        let e = refused(of(|v, _, _| (v.clone(), Vec::new())));
        assert!(e.contains("the state has 1 parts, the update gives 0"), "{e}");
        let e = refused(of(|v, _, s| (v.sum(..), s.to_vec())));
        assert!(e.contains("the new values must be [2, 3], as the update was given, not []"), "{e}");
        assert!(RuleText::decode(&RuleText::add().encode()).unwrap().graph.is_none());
    }
}
