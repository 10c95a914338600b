//! Removes the small memsets that libraries record before their kernels from captured graphs: each would serialize
//! the graph for a few bytes.
//!
//! GEMM and networks with a small workspace have a slot each, and one memset at the start of the graph clears all
//! slots.

#![allow(unsafe_code)]

use cudarc::driver::{DriverError, sys};
use std::ops::Range;

/// Bytes of a slot.
pub const SLOT: usize = 256;

/// Removes the memsets of parts of this memory from a graph; its first node clears all of it.
///
/// # Safety
/// The graph is valid, and the memory is used only by the node after each memset.
pub unsafe fn remove_memsets(graph: sys::CUgraph, memory: &Range<u64>) -> Result<(), DriverError> {
    // SAFETY: the graph is valid; lists have room for as many as were counted.
    unsafe {
        let nodes = list(|to, count| sys::cuGraphGetNodes(graph, to, count))?;
        for node in nodes {
            let before = list(|to, count| sys::cuGraphNodeGetDependencies_v2(node, to, std::ptr::null_mut(), count));
            // Edges on which a kernel may begin early are not listed without their kind; none leads to a memset.
            let Ok(before) = before else { continue };
            if before.is_empty() || !is_memset(node, memory)? {
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
unsafe fn is_memset(node: sys::CUgraphNode, memory: &Range<u64>) -> Result<bool, DriverError> {
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
