//! Places a graph of 100,000 nodes on 8 devices and prints how long it took: `cargo run --release -p talweg-passes --example place_nodes`.

use ir::{Attrs, DType, Graph, Site, Type};
use std::time::Instant;
use talweg_passes::place::{Candidate, Holding, Request, place};
use talweg_passes::split::split;

fn main() -> ir::Result<()> {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut g = Graph::new();
    let ty = Type::new(DType::F32, [64, 64]);
    let mut last: Vec<ir::Slot> = (0..64).map(|_| g.input("x", &ty, Site::UNKNOWN)).collect();
    let row = |name: &str| ops::find(name).ok_or_else(|| ir::Error::bug(format!("no row {name}")));
    let (add, matmul) = (row("add")?, row("matmul")?);
    for i in 0..count / 2 {
        let (a, b) = (last[i % 64], last[(i * 13 + 7) % 64]);
        let product = g.push(matmul, &[a, b], Attrs::new(), Site::UNKNOWN)?;
        last[i % 64] = g.push(add, &[product, a], Attrs::new(), Site::UNKNOWN)?;
    }
    g.outputs = last;
    let device = |d: usize| Candidate {
        name: format!("cpu:{d}"),
        flops: 3e10,
        bandwidth: 8e9,
        launch: 1e-6,
        latency: 1e-5,
        rate: 1e10,
        is_host: true,
        memory: Some(1 << 40),
    };
    let devices: Vec<Candidate> = (0..8).map(device).collect();
    let inputs = vec![Holding::default(); g.inputs.len()];
    let start = Instant::now();
    let placed = place(&g, &Request { devices: &devices, places: &[], inputs: &inputs, refuses: None })?;
    let seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let parts = split(&g, &placed, &placed.homes);
    println!(
        "{} nodes on {} devices: placed in {seconds:.3} s, split into {} parts with {} sends in {:.3} s",
        g.nodes.len(),
        devices.len(),
        parts.parts.len(),
        parts.transfers.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
