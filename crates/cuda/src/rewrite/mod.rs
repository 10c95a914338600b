//! Graph rewrites for NVIDIA's libraries, which run before fusion.

pub mod attention_layout;
pub mod fp8;
pub mod fuse_bias;
pub mod fuse_epilogue;
pub mod fuse_fft;
pub mod join_pads;
pub mod nhwc;
pub mod pooling;
pub mod rows;

use ir::{Call, Graph, Layout, Meaning, Result, Slot};
use passes::View;

/// Each node's first output as a strided view, where it is one.
pub fn views_of(graph: &Graph) -> Result<Vec<Option<View>>> {
    let mut views: Vec<Option<View>> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        let view = match n.op.meaning {
            Meaning::View(f) => {
                let s = n.inputs[0];
                let from = match s.out {
                    0 => views[s.node as usize].clone(),
                    _ => Some(View { root: s, layout: Layout::contiguous(&graph.ty(s).shape) }),
                };
                let types = graph.input_types(n);
                match from {
                    Some(p) => f(&Call { types: &types, attrs: &n.attrs }, &p.layout)?
                        .map(|layout| View { root: p.root, layout }),
                    None => None,
                }
            }
            _ => Some(View { root: Slot::new(i, 0), layout: Layout::contiguous(&n.outs[0].shape) }),
        };
        views.push(view);
    }
    Ok(views)
}
