//! Placement without a device: constraints, colocation, memory, errors.

use ir::{DType, Graph, Site, Slot, Type};
use passes::place::{Candidate, Holding, Place, Request, Why, place};
use talweg_passes as passes;

fn candidate(name: &str, memory: Option<usize>) -> Candidate {
    let name = name.to_string();
    Candidate { name, flops: 1e10, bandwidth: 1e10, launch: 1e-6, latency: 1e-5, rate: 1e10, is_host: true, memory }
}
fn two(memory: Option<usize>) -> [Candidate; 2] {
    [candidate("a:0", memory), candidate("a:1", memory)]
}
fn at(line: u32, place: u32) -> Site {
    Site { place, ..Site::new("model.rs", line, 1) }
}
fn push(g: &mut Graph, op: &str, inputs: &[Slot], site: Site) -> Slot {
    let op = ops::find(op).unwrap_or_else(|| panic!("no op is named {op}"));
    g.push(op, inputs, ir::Attrs::new(), site).unwrap()
}
fn square() -> Type {
    Type::new(DType::F32, [32, 32])
}
fn constraint(d: usize) -> Place {
    Place { allowed: 1 << d, is_one: false, text: format!("device(\"a:{d}\")") }
}

/// `x · w0 · w1 · …`: the products, and the weights.
fn chain(layers: usize, site: impl Fn(usize) -> Site) -> (Graph, Vec<Slot>) {
    let mut g = Graph::new();
    let x = g.input("x", &square(), Site::UNKNOWN);
    let w: Vec<Slot> = (0..layers).map(|_| g.input("w", &square(), Site::UNKNOWN)).collect();
    let products: Vec<Slot> = w
        .iter()
        .enumerate()
        .scan(x, |x, (l, w)| {
            *x = push(&mut g, "matmul", &[*x, *w], site(l));
            Some(*x)
        })
        .collect();
    g.outputs = vec![products[layers - 1]];
    (g, products)
}
fn variables(layers: usize) -> Vec<Holding> {
    let held = |k: usize| Holding { home: None, is_variable: k > 0 };
    (0..=layers).map(held).collect()
}

#[test]
fn a_device_that_refuses_an_op_is_named_with_its_line() {
    let (g, _) = chain(2, |l| at(10 + l as u32, l as u32));
    let refuses = |d: usize, n: &ir::FlatNode, _: &[Type]| {
        (d == 0 && n.op.name == "matmul").then(|| "no kernel for f32".to_string())
    };
    let (devices, inputs) = (two(None), variables(2));
    let request = Request { devices: &devices, places: &[constraint(0)], inputs: &inputs, refuses: Some(&refuses) };
    let e = place(&g, &request).unwrap_err().to_string();
    assert!(e.contains("matmul") && e.contains("device(\"a:0\")") && e.contains("no kernel for f32"), "{e}");
    assert!(e.contains("model.rs:11"), "{e}");
    // Without a constraint it goes where it can.
    let free = Request { places: &[constraint(1)], ..request };
    assert!(place(&g, &free).unwrap().device.iter().flatten().all(|d| *d == 1));
}

#[test]
fn colocation_with_a_variable_that_lives_elsewhere_is_an_error() {
    let (mut g, _) = chain(2, |l| at(10 + l as u32, 1));
    // Both weights belong to the group, but live apart.
    g.nodes[1].site = at(1, 1);
    g.nodes[2].site = at(2, 1);
    let mut inputs = variables(2);
    (inputs[1].home, inputs[2].home) = (Some(0), Some(1));
    let group = Place { allowed: 0b11, is_one: true, text: "colocate_with the value of model.rs:1".into() };
    let devices = two(None);
    let request = Request { devices: &devices, places: &[group], inputs: &inputs, refuses: None };
    let e = place(&g, &request).unwrap_err().to_string();
    assert!(e.contains("colocate_with") && e.contains("on a:1") && e.contains("on a:0"), "{e}");
}

#[test]
fn layers_go_where_memory_has_room() {
    let (g, products) = chain(6, |_| Site::UNKNOWN);
    let inputs = variables(6);
    // Three matrices and what is between them.
    let devices = two(Some(6 * square().bytes()));
    let request = Request { devices: &devices, places: &[], inputs: &inputs, refuses: None };
    let placed = place(&g, &request).unwrap();
    let of = |s: &Slot| placed.device[s.node as usize].unwrap();
    let on: Vec<usize> = products.iter().map(of).collect();
    assert!(on.is_sorted() && on.contains(&0) && on.contains(&1), "{on:?}");
    assert!(placed.bytes.iter().all(|b| *b <= 6 * square().bytes()), "{:?}", placed.bytes);
    // A weight lives with the product that reads it.
    assert_eq!(placed.homes[1..].iter().map(|h| h.unwrap()).collect::<Vec<_>>(), on);
    let roomy = two(None);
    let alone = place(&g, &Request { devices: &roomy, ..request }).unwrap();
    assert!(alone.device.iter().flatten().all(|d| *d == 0), "a chain gains nothing from a second device");
}

#[test]
fn a_view_of_a_weight_goes_where_it_is_read() {
    let mut g = Graph::new();
    let x = g.input("x", &square(), Site::UNKNOWN);
    let w: Vec<Slot> = (0..6).map(|_| g.input("w", &square(), Site::UNKNOWN)).collect();
    let (permute, axes) = (ops::find("permute").unwrap(), ir::Attrs::new().with("axes", &[1usize, 0][..]));
    let mut y = x;
    for (l, w) in w.iter().enumerate() {
        // The view and the product are what one op was expanded to.
        let site = Site { origin: 1 + l as u32, ..at(3, 0) };
        let transposed = g.push(permute, &[*w], axes.clone(), site).unwrap();
        y = push(&mut g, "matmul", &[y, transposed], site);
    }
    // Work besides, so that one device alone is not the answer.
    let apart = push(&mut g, "matmul", &[x, x], at(4, 0));
    let more = (0..5).fold(apart, |a, _| push(&mut g, "matmul", &[a, x], at(4, 0)));
    g.outputs = vec![y, more];
    let (devices, inputs) = (two(None), variables(6));
    let placed = place(&g, &Request { devices: &devices, places: &[], inputs: &inputs, refuses: None }).unwrap();
    assert!(placed.homes[1..].iter().all(|h| *h == placed.homes[1]), "{:?}", placed.homes);
    assert_ne!(placed.device[more.node as usize], placed.homes[1], "both devices work");
}

#[test]
fn gradients_follow_their_op_even_where_lines_are_shared() {
    let mut g = Graph::new();
    let (x, y) = (g.input("x", &square(), Site::UNKNOWN), g.input("y", &square(), Site::UNKNOWN));
    // One line, as in a loop, with two constraints.
    let op = |place: u32, origin: u32| Site { origin, ..at(5, place) };
    let first = push(&mut g, "tanh", &[x], op(1, 71));
    let second = push(&mut g, "tanh", &[y], op(2, 72));
    let back = |origin: u32| Site { is_gradient: true, origin, ..at(5, 0) };
    let of_second = push(&mut g, "mul", &[first, second], back(72));
    let of_first = push(&mut g, "mul", &[first, second], back(71));
    g.outputs = vec![of_first, of_second];
    let (devices, inputs) = (two(None), vec![Holding::default(); 2]);
    let places = [constraint(0), constraint(1)];
    let placed = place(&g, &Request { devices: &devices, places: &places, inputs: &inputs, refuses: None }).unwrap();
    let on = |s: Slot| placed.device[s.node as usize];
    assert_eq!((on(of_first), on(of_second)), (Some(0), Some(1)));
    assert_eq!(placed.why[of_first.node as usize], Why::Gradient);
}

#[test]
fn an_optimizer_is_where_its_variable_is() {
    let mut g = Graph::new();
    let names = ["x", "w0", "w1", "m0", "m1"];
    let s: Vec<Slot> = names.iter().map(|n| g.input(n, &square(), Site::UNKNOWN)).collect();
    let h = push(&mut g, "matmul", &[s[0], s[1]], at(1, 1));
    let y = push(&mut g, "matmul", &[h, s[2]], at(2, 2));
    let grad = |g: &mut Graph| push(g, "mul", &[h, y], Site { is_gradient: true, ..at(3, 0) });
    let mut updates = Vec::new();
    for l in 0..2 {
        let d = grad(&mut g);
        let m = push(&mut g, "add", &[s[3 + l], d], at(4, 0));
        let w = push(&mut g, "sub", &[s[1 + l], m], at(5, 0));
        updates.extend([(w, 1 + l as u32), (m, 3 + l as u32)]);
    }
    g.outputs = updates.iter().map(|u| u.0).collect();
    g.updates = updates.iter().enumerate().map(|(o, u)| (u.1, o as u32)).collect();
    let inputs = variables(4);
    let (devices, places) = (two(None), [constraint(0), constraint(1)]);
    let placed = place(&g, &Request { devices: &devices, places: &places, inputs: &inputs, refuses: None }).unwrap();
    assert_eq!(placed.homes[1..], [Some(0), Some(1), Some(0), Some(1)]);
    let on = |s: Slot| placed.device[s.node as usize];
    assert_eq!(updates.iter().map(|u| on(u.0)).collect::<Vec<_>>(), [Some(0), Some(0), Some(1), Some(1)]);
}
