//! Every kernel that the op table's samples lower to is valid WGSL within WebGPU's core limits: checked by naga, without
//! an adapter.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use passes::Watch;
use talweg_wgsl::lower::{Code, Lowered, claims};
use talweg_wgsl::page;

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
    // For compilers of browsers, which are stricter about uniform control flow.
    if let Ok(path) = std::env::var("TALWEG_WGSL") {
        std::fs::write(path, serde_json::to_string(&sources).unwrap()).unwrap();
    }
}

/// Long attention is one kernel, and no memory holds its scores.
#[test]
fn attention_holds_no_scores() {
    let op = ops::find("attention").expect("a row");
    let zeros = |shape: &[usize]| ir::Literal::zeros(ir::DType::F32, shape.to_vec());
    let attrs = ir::Attrs::new().with("causal", true).with("scale", 0.125).with("dropout", 0.0);
    let case = ir::Case::new(vec![zeros(&[2, 4, 256, 64]), zeros(&[2, 4, 256, 64]), zeros(&[2, 4, 256, 64])], attrs);
    let graph = runtime::reference::graph_of(op, &case).unwrap();
    let graph = passes::optimize(&graph, &claims, &runtime::reference::run_node).unwrap();
    let lowered = Lowered::new(graph, &mut Watch::none()).unwrap();
    let launches = lowered.code.iter().map(|c| if let Code::Kernels(list) = c { list.len() } else { usize::MAX });
    assert_eq!(launches.sum::<usize>(), 1);
    assert!(lowered.plan.memory.arena_bytes < 256 * 256 * 4, "{} B", lowered.plan.memory.arena_bytes);
}

/// A program of a page is the launches of its graph, and one that needs the host is refused with its ops.
#[test]
fn pages_have_programs() {
    let lowered = |name: &str, dtype: ir::DType| {
        let op = ops::find(name).expect("a row");
        let case = (op.cases)().swap_remove(0);
        let inputs = case.inputs.iter().map(|l| if l.dtype() == ir::DType::F64 { l.cast(dtype) } else { l.clone() });
        let case = ir::Case { inputs: inputs.collect(), ..case };
        let graph = runtime::reference::graph_of(op, &case).unwrap();
        let graph = passes::optimize(&graph, &claims, &runtime::reference::run_node).unwrap();
        Lowered::new(graph, &mut Watch::none()).unwrap()
    };
    let on_device = lowered("matmul", ir::DType::F32);
    assert_eq!(page::refusal(&on_device), None);
    let file = page::file(&on_device).unwrap();
    let length = u32::from_le_bytes(file[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&file[4..4 + length]).unwrap();
    assert_eq!(length % 4, 0);
    let launches = head["launches"].as_array().unwrap();
    assert_eq!(launches.len(), 1);
    validate("matmul", head["sources"][0].as_str().unwrap());
    assert_eq!(head["sizes"].as_array().unwrap().len(), on_device.plan.arena() as usize + 2);
    let refused = page::refusal(&lowered("cholesky", ir::DType::F32)).expect("the host computes it");
    assert!(refused.contains("cholesky"), "{refused}");
}

fn validate(op: &str, source: &str) {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{op}: {}\n{source}", e.emit_to_string(source)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    validator.validate(&module).unwrap_or_else(|e| panic!("{op}: {}\n{source}", e.emit_to_string(source)));
}
