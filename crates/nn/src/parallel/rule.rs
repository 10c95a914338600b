//! An optimizer's rule on its way to the parameter store: the graph of one step, which any server
//! can run, so a new optimizer needs no new server.

use crate::optim::{Rule, Step};
use ir::{Collect, Graph, collect};
use tensor::{DType, Error, Literal, Result, Shape, Tensor, no_grad, placeholder};

/// Key under which a table's rule stands in the membership store.
pub fn rule_key(table: u32) -> String {
    format!("rule/{table}")
}

/// First values of one array of a rule's state.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotText {
    /// Every element starts with this, or
    pub fill: f32,
    /// they start with these, if not empty.
    pub values: Vec<f32>,
}

/// A rule for one parameter. The graph's inputs are named `param`, `grad`, `lr`, `t` and `slot0`,
/// `slot1`…; those it does not need are missing. Its outputs are the parameter and the slots.
pub struct RuleText {
    /// The parameter's shape.
    pub shape: Shape,
    /// First values of the state.
    pub slots: Vec<SlotText>,
    /// One step.
    pub graph: Graph,
}

impl RuleText {
    /// Traces one step of a rule.
    pub fn of(rule: &dyn Rule, shape: &Shape, weight_decay: f64) -> Result<RuleText> {
        let first = rule.slots(shape);
        let mut slots = Vec::with_capacity(first.len());
        for (name, value) in &first {
            let value = value.cast(DType::F32).to_vec::<f32>()?;
            if value.len() != shape.count() {
                let e = format!("slot {name} has {} elements, the parameter {}", value.len(), shape.count());
                return Err(Error::shape(format!("{e}: the store keeps state of the parameter's size")));
            }
            let fill = value.first().copied().unwrap_or(0.0);
            let is_flat = value.iter().all(|x| x.to_bits() == fill.to_bits());
            slots.push(SlotText { fill, values: if is_flat { Vec::new() } else { value } });
        }
        let like = |name: &str| placeholder(name, shape.clone(), DType::F32);
        let scalar = |name: &str| placeholder(name, Shape::scalar(), DType::F32);
        let (param, grad, lr, t) = (like("param"), like("grad"), scalar("lr"), scalar("t"));
        let state: Vec<Tensor> = (0..slots.len()).map(|i| like(&format!("slot{i}"))).collect();
        let step = Step { param: &param, grad: &grad, slots: &state, lr: &lr, t: &t, weight_decay };
        let (next, state) = no_grad(|| rule.step(&step));
        let mut outs = vec![next.cast(DType::F32).value()?.clone()];
        for s in state {
            outs.push(s.cast(DType::F32).value()?.clone());
        }
        let graph = collect(&outs, Collect::Later)?.graph;
        Ok(RuleText { shape: shape.clone(), slots, graph })
    }

    /// Its bytes: sizes, slots, then the graph.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = |n: usize| out.extend_from_slice(&(n as u64).to_le_bytes());
        number(self.shape.rank());
        self.shape.iter().for_each(|d| number(*d));
        number(self.slots.len());
        for s in &self.slots {
            out.extend_from_slice(&s.fill.to_le_bytes());
            out.extend_from_slice(&(s.values.len() as u64).to_le_bytes());
            s.values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }
        out.extend_from_slice(&self.graph.to_bytes());
        out
    }
    /// From its bytes; `find` knows the ops.
    pub fn decode(bytes: &[u8]) -> Result<RuleText> {
        let mut rest = bytes;
        let short = || Error::format("a rule is cut short");
        let rank = number(&mut rest)?;
        let dims = (0..rank.min(64)).map(|_| number(&mut rest)).collect::<Result<Vec<_>>>()?;
        let shape = Shape::from(dims.as_slice());
        let mut slots = Vec::new();
        for _ in 0..number(&mut rest)?.min(64) {
            let (fill, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            rest = after;
            let len = number(&mut rest)?.checked_mul(4).ok_or_else(short)?;
            let (values, after) = rest.split_at_checked(len).ok_or_else(short)?;
            rest = after;
            let values = Literal::from_bytes(DType::F32, [len / 4], values)?.to_vec::<f32>()?;
            slots.push(SlotText { fill: f32::from_le_bytes(*fill), values });
        }
        Ok(RuleText { shape, slots, graph: Graph::from_bytes(rest, &tensor::find)? })
    }
}

fn number(rest: &mut &[u8]) -> Result<usize> {
    let (n, after) = rest.split_first_chunk::<8>().ok_or_else(|| Error::format("a rule is cut short"))?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*n)).map_err(|_| Error::format("a number in a rule is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Adagrad, Adam, Sgd};

    #[test]
    fn a_rule_reads_back() {
        let rules: [Box<dyn Rule>; 3] = [
            Box::new(Sgd::default()),
            Box::new(Adam::default()),
            Box::new(Adagrad { initial_accumulator: 0.5, ..Adagrad::default() }),
        ];
        for rule in rules {
            let text = RuleText::of(&*rule, &Shape::from([2usize, 3]), 0.1).unwrap();
            let bytes = text.encode();
            let back = RuleText::decode(&bytes).unwrap();
            assert_eq!((&back.shape, &back.slots), (&text.shape, &text.slots));
            assert_eq!(back.graph.to_string(), text.graph.to_string());
            for n in 0..bytes.len().min(60) {
                assert!(RuleText::decode(&bytes[..n]).is_err());
            }
        }
    }
}
