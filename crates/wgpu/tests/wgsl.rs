//! Every kernel that the op table's samples lower to is valid WGSL within WebGPU's core limits: checked by naga, without
//! an adapter.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use passes::Watch;
use talweg_wgpu::lower::{Code, Lowered, claims};

#[test]
fn every_sample_is_valid_wgsl() {
    let mut kernels = 0;
    let mut sources = std::collections::HashSet::new();
    for op in ops::table() {
        for case in (op.cases)() {
            for dtype in ir::DType::ALL {
                let convert = |l: &ir::Literal| if l.dtype() == ir::DType::F64 { l.cast(dtype) } else { l.clone() };
                let case = ir::Case { inputs: case.inputs.iter().map(convert).collect(), ..case.clone() };
                let Ok(graph) = runtime::reference::graph_of(op, &case) else { continue };
                // Some composites refuse complex numbers only when they are expanded.
                let Ok(graph) = passes::optimize(&graph, &claims, &runtime::reference::run_node) else { continue };
                let lowered = Lowered::new(graph, &mut Watch::none()).unwrap();
                for (r, code) in lowered.code.iter().enumerate() {
                    let Code::Kernels(list) = code else { continue };
                    for k in list {
                        let source = lowered.source(r, k);
                        if sources.insert(source.clone()) {
                            validate(op.name, &source);
                            kernels += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(kernels > 500, "{kernels}");
}

fn validate(op: &str, source: &str) {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{op}: {}\n{source}", e.emit_to_string(source)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    validator.validate(&module).unwrap_or_else(|e| panic!("{op}: {}\n{source}", e.emit_to_string(source)));
}
