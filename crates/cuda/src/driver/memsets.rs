//! Captured graphs without the small clearings that libraries put before their kernels: each would make
//! everything wait for a few bytes to become 0.
//!
//! Products and networks that need little working memory have their own, a slot each, so that all of it can
//! be cleared at the beginning of a graph.

#![allow(unsafe_code)]

use cudarc::driver::{DriverError, sys};
use std::ops::Range;

/// Bytes of a slot.
pub const SLOT: usize = 256;

/// Takes out of a graph what clears a part of this memory, which the graph's first node clears as a whole.
///
/// # Safety
/// The graph is valid, and the memory is used by one node behind each clearing only.
pub unsafe fn take_out_clearings(graph: sys::CUgraph, memory: &Range<u64>) -> Result<(), DriverError> {
    // SAFETY: the graph is valid; lists have room for as many as were counted.
    unsafe {
        let nodes = list(|to, count| sys::cuGraphGetNodes(graph, to, count))?;
        for node in nodes {
            let before = list(|to, count| sys::cuGraphNodeGetDependencies_v2(node, to, std::ptr::null_mut(), count));
            // Edges on which a kernel may begin early are not listed without their kind; none leads to a clearing.
            let Ok(before) = before else { continue };
            if before.is_empty() || !is_clearing(node, memory)? {
                continue;
            }
            let behind = list(|to, count| sys::cuGraphNodeGetDependentNodes_v2(node, to, std::ptr::null_mut(), count))?;
            for &from in &before {
                for to in &behind {
                    sys::cuGraphAddDependencies_v2(graph, &raw const from, to, std::ptr::null(), 1).result()?;
                }
            }
            sys::cuGraphDestroyNode(node).result()?;
        }
    }
    Ok(())
}

/// The nodes that a function of the driver counts, and then names.
fn list(
    mut f: impl FnMut(*mut sys::CUgraphNode, *mut usize) -> sys::CUresult,
) -> Result<Vec<sys::CUgraphNode>, DriverError> {
    let mut count = 0;
    f(std::ptr::null_mut(), &raw mut count).result()?;
    let mut nodes = vec![std::ptr::null_mut(); count];
    if count > 0 {
        f(nodes.as_mut_ptr(), &raw mut count).result()?;
    }
    Ok(nodes)
}

/// True if a node sets bytes of this memory to 0.
///
/// # Safety
/// The node is valid.
unsafe fn is_clearing(node: sys::CUgraphNode, memory: &Range<u64>) -> Result<bool, DriverError> {
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    let mut p = sys::CUDA_MEMSET_NODE_PARAMS { dst: 0, pitch: 0, value: 1, elementSize: 0, width: 0, height: 0 };
    // SAFETY: the node is valid, and what is asked for fits it.
    unsafe {
        sys::cuGraphNodeGetType(node, &raw mut kind).result()?;
        if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET {
            return Ok(false);
        }
        sys::cuGraphMemsetNodeGetParams(node, &raw mut p).result()?;
    }
    let bytes = p.elementSize as usize * p.width;
    Ok(p.value == 0 && p.height <= 1 && bytes <= SLOT && memory.contains(&p.dst))
}
