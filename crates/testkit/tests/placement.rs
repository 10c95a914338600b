//! Random graphs on several devices: the numbers of one device, each value sent once, and an order that never waits for
//! itself.

use cpu as _;
use ir::{Buffer, Graph, INPUT};
use ops::engine_named;
use passes::Watch;
use passes::place::{Candidate, Holding, Place, Request, place};
use passes::split::{From, Output, Split, split};
use runtime::{LogicalDevice, Placing, Program, compile_placed, set_logical_devices};
use talweg_testkit::random::{Sample, random_graph};

struct Dice(u64);
impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

const DEVICES: usize = 3;

/// Each device alone, any device, and one group.
fn places() -> Vec<Place> {
    let one = |d: usize| Place { allowed: 1 << d, is_one: false, text: format!("device(\"cpu:{d}\")") };
    let mut all: Vec<Place> = (0..DEVICES).map(one).collect();
    all.push(Place { allowed: (1 << DEVICES) - 1, is_one: false, text: "device(\"cpu\")".into() });
    all.push(Place { allowed: (1 << DEVICES) - 1, is_one: true, text: "colocate_with".into() });
    all
}

/// Gives nodes random constraints.
fn constrain(graph: &mut Graph, dice: &mut Dice) {
    for n in graph.nodes.iter_mut().filter(|n| n.op != &INPUT) {
        // Half of them have none.
        n.site.place = dice.below(2 * places().len()).saturating_sub(places().len() - 1) as u32;
    }
}

/// Every part reads earlier parts only, on its own device or after one send to it.
fn check_schedule(split: &Split) {
    let mut sent: Vec<(ir::Slot, usize)> = split.transfers.iter().map(|t| (t.value, t.to)).collect();
    sent.sort_unstable();
    let all = sent.len();
    sent.dedup();
    assert_eq!(all, sent.len(), "a value is sent twice to one device");
    for t in &split.transfers {
        assert_ne!(t.from, Some(t.to), "a value is sent to where it is");
    }
    let mut crossed = Vec::new();
    for (p, part) in split.parts.iter().enumerate() {
        part.graph.verify().unwrap();
        assert_eq!(part.inputs.len(), part.graph.inputs.len());
        for f in &part.inputs {
            if let From::Part { part: q, out } = *f {
                assert!(q < p, "part {p} reads part {q}");
                let from = &split.parts[q];
                assert!(from.device == part.device || from.level < part.level);
                if from.device != part.device {
                    crossed.push((from.outputs[out], part.device));
                }
            }
        }
        assert!(part.after.iter().all(|q| *q < p));
    }
    crossed.sort_unstable();
    crossed.dedup();
    let between: Vec<_> =
        split.transfers.iter().filter(|t| split_made(split, t.value)).map(|t| (t.value, t.to)).collect();
    let mut between = between;
    between.sort_unstable();
    assert_eq!(crossed, between, "every value that crosses is listed once");
    for o in &split.outputs {
        if let Output::From(From::Part { part, out }) = o {
            assert!(*out < split.parts[*part].outputs.len());
        }
    }
}
fn split_made(split: &Split, s: ir::Slot) -> bool {
    split.parts.iter().any(|p| p.outputs.contains(&s))
}

fn bits(b: &Buffer) -> Vec<u8> {
    b.read().unwrap().bytes().to_vec()
}

#[test]
fn random_constraints_do_not_change_a_bit() {
    set_logical_devices("cpu", &[LogicalDevice::default(); DEVICES]).unwrap();
    let engines: Vec<_> = (0..DEVICES).map(|d| engine_named(&format!("cpu:{d}")).unwrap()).collect();
    let whole = engine_named("cpu").unwrap();
    let (mut compared, mut sends) = (0, 0);
    for seed in 0..200 {
        let Sample { graph, inputs } = random_graph(seed);
        let mut dice = Dice(seed);
        let fed = || inputs.iter().cloned().map(Buffer::Host).collect::<Vec<_>>();
        let want = whole.compile(&graph).unwrap().run(&mut fed()).unwrap();
        let mut placed_graph = graph.clone();
        constrain(&mut placed_graph, &mut dice);
        let holding: Vec<Holding> = inputs.iter().map(|_| Holding::default()).collect();
        let placing = Placing { graph: placed_graph.clone(), engines: engines.clone(), places: places() };
        let placed = match compile_placed(placing, &holding, &mut Watch::none()) {
            Ok(p) => p,
            Err(e) => panic!("seed {seed}: {e}\n{placed_graph}"),
        };
        check_schedule(placed.split());
        // Constraints hold.
        let (g, at) = placed.placement();
        for (n, d) in g.nodes.iter().zip(&at.device) {
            if let (Some(d), p @ 1..) = (d, n.site.place as usize) {
                assert!(places()[p - 1].allowed >> d & 1 == 1, "seed {seed}");
            }
        }
        let got = placed.run(&mut fed()).unwrap();
        for (a, b) in want.iter().zip(&got) {
            assert_eq!(bits(a), bits(b), "seed {seed}\n{}\n{placed_graph}", placed.text());
            compared += 1;
        }
        sends += placed.split().transfers.len();
    }
    assert!(compared > 300 && sends > 500, "{compared} results, {sends} sends");
}

/// A graph of layers that read two earlier values.
fn ladder(nodes: usize) -> Graph {
    let mut g = Graph::new();
    let ty = ir::Type::new(ir::DType::F32, [64, 64]);
    let mut last: Vec<ir::Slot> = (0..8).map(|_| g.input("x", &ty, ir::Site::UNKNOWN)).collect();
    let (add, tanh) = (ops::find("add").unwrap(), ops::find("tanh").unwrap());
    for i in 0..nodes / 2 {
        let (a, b) = (last[i % 8], last[(i * 5 + 3) % 8]);
        let sum = g.push(add, &[a, b], ir::Attrs::new(), ir::Site::UNKNOWN).unwrap();
        last[i % 8] = g.push(tanh, &[sum], ir::Attrs::new(), ir::Site::UNKNOWN).unwrap();
    }
    g.outputs = last;
    g
}

#[test]
fn the_work_of_placing_grows_with_the_graph() {
    let one = |d: usize| Candidate {
        name: format!("cpu:{d}"),
        flops: 1e10,
        bandwidth: 1e10,
        launch: 1e-6,
        latency: 1e-6,
        rate: 1e10,
        is_host: true,
        memory: None,
    };
    let devices: Vec<Candidate> = (0..8).map(one).collect();
    let considered = |nodes: usize| {
        let g = ladder(nodes);
        let inputs = vec![Holding::default(); g.inputs.len()];
        let request = Request { devices: &devices, places: &[], inputs: &inputs, refuses: None };
        let placed = place(&g, &request).unwrap();
        let used = (0..8).filter(|d| placed.device.contains(&Some(*d))).count();
        assert!(used > 1, "independent work is spread: {used}");
        check_schedule(&split(&g, &placed, &placed.homes));
        placed.considered
    };
    let (small, large) = (considered(1000), considered(8000));
    assert!(large <= 8 * small + 1000 && large >= 7 * small, "{small} then {large}");
}
