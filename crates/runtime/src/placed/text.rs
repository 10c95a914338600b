//! A placement for people.

use super::Inner;
use crate::logical::size;
use passes::place::Why;
use std::fmt::Write;

impl Inner {
    /// Devices with their memory, parts with their ops, lines and reasons, and every value that is sent.
    pub fn text(&self) -> String {
        let (parts, sent) = (&self.split.parts, &self.split.transfers);
        let mut out = format!(
            "placement: {} devices, {} parts, {} values of {} sent, {:.3} ms simulated\n",
            self.engines.len(),
            self.programs.iter().flatten().count(),
            sent.len(),
            size(self.split.bytes()),
            self.placement.seconds * 1e3
        );
        let name = |d: usize| self.engines[d].device().name();
        // Writing to a string does not fail.
        for (d, engine) in self.engines.iter().enumerate() {
            let nodes = self.placement.device.iter().filter(|o| **o == Some(d)).count();
            let limit = engine.device().memory_limit().map_or("no limit".to_string(), |l| format!("limit {}", size(l)));
            let _ = writeln!(out, "{:<8} {nodes:>6} nodes, planned peak {}, {limit}", name(d), size(self.peaks[d]));
        }
        let mut why: Vec<Vec<usize>> = vec![Vec::new(); parts.len()];
        let part_of = self.part_of();
        part_of.iter().enumerate().for_each(|(i, p)| p.iter().for_each(|&p| why[p].push(i)));
        for (p, part) in parts.iter().enumerate().filter(|(p, _)| self.programs[*p].is_some()) {
            let mut reasons: Vec<String> = Vec::new();
            for &i in &why[p] {
                let text = self.reason(i);
                if !reasons.contains(&text) {
                    reasons.push(text);
                }
            }
            let ops: Vec<&str> = why[p].iter().map(|&i| self.graph.nodes[i].op.name).collect();
            let mut lines: Vec<String> = why[p]
                .iter()
                .map(|&i| self.graph.nodes[i].site)
                .filter(|s| s.line > 0)
                .map(|s| s.to_string())
                .collect();
            lines.sort();
            lines.dedup();
            let more = if ops.len() > 12 { format!(" and {} more", ops.len() - 12) } else { String::new() };
            let _ = writeln!(
                out,
                "part {p:<3} {:<8} {}{more} | {} | {}",
                name(part.device),
                ops.iter().take(12).copied().collect::<Vec<_>>().join(" "),
                reasons.join(", "),
                lines.join(" ")
            );
        }
        for t in sent {
            let from = t.from.map_or("host", name);
            let made = t.made_by.map_or("input".to_string(), |(op, site)| format!("{op} at {site}"));
            let (op, site) = t.used_by;
            let ty = self.graph.ty(t.value);
            let way = format!("{from} -> {}", name(t.to));
            let _ = writeln!(out, "send     {way:<16} {:>10} B  {ty} of {made}, for {op} at {site}", t.bytes);
        }
        out
    }

    /// By node: its part.
    fn part_of(&self) -> Vec<Option<usize>> {
        let mut all = vec![None; self.graph.nodes.len()];
        for (p, ids) in self.split.nodes.iter().enumerate() {
            ids.iter().for_each(|&i| all[i as usize] = Some(p));
        }
        all
    }

    fn reason(&self, i: usize) -> String {
        match self.placement.why[i] {
            Why::Constraint(p) => self.places[p as usize - 1].text.clone(),
            Why::Colocated => "colocated".into(),
            Why::Variable => "variable".into(),
            Why::Gradient => "gradient".into(),
            Why::Cost => "cost".into(),
            Why::Anywhere => "anywhere".into(),
        }
    }
}
