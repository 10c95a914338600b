//! Where a parameter lives in the parameter store, and what its rule there is told with each step.

use super::rule::RuleText;
use crate::optim::Rule;
use ir::{Site, Var};
use std::sync::Arc;
use tensor::{Error, Result, Shape, Tensor};

/// A parameter's table in the store.
pub struct Home {
    /// Its number.
    pub table: u32,
    /// The rule that servers have.
    text: RuleText,
    /// The constants of the rule, if they have changed.
    constants: Option<Vec<f32>>,
}

impl Home {
    /// A parameter in a table whose servers have this rule.
    pub fn new(table: u32, text: RuleText) -> Home {
        Home { table, text, constants: None }
    }
    /// The numbers of a rule that takes the place of the one that servers have; an error if it is another one.
    pub fn constants(&self, rule: &dyn Rule, shape: &Shape, weight_decay: f64) -> Result<Option<Vec<f32>>> {
        let text = RuleText::of(rule, shape, weight_decay)?;
        if !self.text.is_like(&text) {
            let e = "servers have the rule with which the optimizer was made, and take other numbers for it, but no other \
                     computation: begin with momentum, weight decay or whatever is to change above 0";
            return Err(Error::value(e).in_op("optimizer"));
        }
        let constants = text.constants();
        Ok((constants != self.text.constants()).then_some(constants))
    }
    /// Takes these from now on.
    pub fn tune(&mut self, constants: Option<Vec<f32>>) {
        self.constants = constants;
    }
    /// The inputs of the rule at the next step: the variables it reads, then its constants if they have changed.
    pub fn numbers(&self) -> Option<Tensor> {
        let read = |v: &Arc<Var>| Tensor::from(v.read(Site::here())).reshape([1]);
        let mut parts: Vec<Tensor> = self.text.reads().iter().map(read).collect();
        parts.extend(self.constants.as_ref().map(|c| Tensor::new([c.len()], c)));
        match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Tensor::concat(&parts, 0)),
        }
    }
    /// Whether its rule has the same inputs as another's.
    pub fn is_told_as(&self, other: &Home) -> bool {
        let same = |(a, b): (&Arc<Var>, &Arc<Var>)| Arc::ptr_eq(a, b);
        let (mine, its) = (self.text.reads(), other.text.reads());
        mine.len() == its.len() && mine.iter().zip(its).all(same) && self.constants == other.constants
    }
}
