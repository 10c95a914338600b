//! The rules of a flat graph, checked: after every pass in debug builds, and on everything that
//! comes from outside.

use crate::{Attr, Call, Error, FlatNode, Graph, INPUT, Result, Slot, Type};
use smallvec::SmallVec;

/// Sub-graphs inside sub-graphs, at most; every walk over them may recurse.
pub const DEPTH_MAX: usize = 32;
/// Dimensions of a value, at most.
pub const RANK_MAX: usize = 64;

impl Graph {
    /// Fails unless the graph keeps every rule: nodes use only earlier ones, attributes are those
    /// of the row, types are what the row infers, the inputs are the input nodes in order, the
    /// outputs exist, and all of it holds in the sub-graphs.
    ///
    /// ```
    /// # use talweg_ir::{DType, Graph, Site, Slot, Type};
    /// let mut g = Graph::new();
    /// let x = g.input("x", &Type::new(DType::F32, [2]), Site::UNKNOWN);
    /// g.outputs.push(x);
    /// assert!(g.verify().is_ok());
    /// g.outputs.push(Slot::new(7, 0));
    /// assert_eq!(g.verify().unwrap_err().message, "output 1 is %7, but there are 1 nodes");
    /// ```
    pub fn verify(&self) -> Result<()> {
        self.verify_at(0)
    }

    pub(crate) fn verify_at(&self, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::bug(format!("sub-graphs are nested more than {DEPTH_MAX} deep")));
        }
        if self.nodes.len() > u32::MAX as usize {
            return Err(Error::bug("more nodes than can be numbered"));
        }
        for i in 0..self.nodes.len() {
            self.verify_node(i, depth)?;
        }
        let is_input = |n: &FlatNode| n.op == &INPUT;
        let found = self.nodes.iter().enumerate().filter(|(_, n)| is_input(n)).map(|(i, _)| i as u32);
        if !found.eq(self.inputs.iter().copied()) {
            return Err(Error::bug(format!("inputs {:?} are not the input nodes in order", self.inputs)));
        }
        self.verify_outputs()
    }

    pub(crate) fn verify_outputs(&self) -> Result<()> {
        for (k, &s) in self.outputs.iter().enumerate() {
            self.verify_slot(s, self.nodes.len()).map_err(|e| Error::bug(format!("output {k} is {e}")))?;
        }
        Ok(())
    }

    /// Checks one node against those before it.
    pub(crate) fn verify_node(&self, i: usize, depth: usize) -> Result<()> {
        let n = &self.nodes[i];
        let fail = |e: String| Error::bug(format!("%{i}: {e}")).in_op(n.op.name).at(n.site);
        for (k, &s) in n.inputs.iter().enumerate() {
            self.verify_slot(s, i).map_err(|e| fail(format!("input {k} is {e}")))?;
        }
        for (k, (name, a)) in n.attrs.iter().enumerate() {
            if n.attrs.iter().take(k).any(|(other, _)| other == name) {
                return Err(fail(format!("attribute {name} is given twice")));
            }
            match a {
                Attr::Graph(g) => g.verify_at(depth + 1).map_err(|e| fail(format!("{name}: {e}")))?,
                Attr::Literal(l) => is_sound(&Type::new(l.dtype(), l.shape().clone())).map_err(fail)?,
                _ => {}
            }
        }
        let types: SmallVec<[Type; 3]> = self.input_types(n);
        let outs = n.op.check(&Call { types: &types, attrs: &n.attrs }).map_err(|e| fail(e.message))?;
        outs.iter().try_for_each(is_sound).map_err(fail)?;
        if outs != n.outs {
            let show = |t: &[Type]| t.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            return Err(fail(format!("is stated to be ({}), but gives ({})", show(&n.outs), show(&outs))));
        }
        Ok(())
    }

    fn verify_slot(&self, s: Slot, before: usize) -> Result<(), String> {
        match self.nodes.get(s.node as usize) {
            None => Err(format!("%{}, but there are {} nodes", s.node, self.nodes.len())),
            Some(_) if s.node as usize >= before => Err(format!("%{}, which does not come before it", s.node)),
            Some(n) if s.out as usize >= n.outs.len() => {
                Err(format!("%{}.{}, but {} has {} outputs", s.node, s.out, n.op.name, n.outs.len()))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Every value must be addressable, also when a size is zero: strides are computed all the same.
pub(crate) fn is_sound(t: &Type) -> Result<(), String> {
    if t.shape.rank() > RANK_MAX {
        return Err(format!("{} dimensions, but {RANK_MAX} is the most", t.shape.rank()));
    }
    let bytes = t.shape.iter().try_fold(t.dtype.size(), |a, &d| a.checked_mul(d.max(1)));
    match bytes {
        Some(b) if b <= isize::MAX as usize / 2 => Ok(()),
        _ => Err(format!("a value of type {t} is too large")),
    }
}
