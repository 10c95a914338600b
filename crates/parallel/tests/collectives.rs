//! Collectives on tensors between threads: values and gradients against a computation in one place,
//! in imperative code, under `jit` and in sessions; disagreement is an error on every rank.

use cpu as _;
use std::sync::Arc;
use std::thread;
use talweg_parallel::{Group, Wire};
use tensor::{Combine, DType, Session, Tensor, grad, jit, placeholder, vmap};

/// Runs `f` on every rank and answers what each returned.
fn on_all<T: Send + 'static>(ranks: usize, f: impl Fn(&Group) -> T + Send + Sync + 'static) -> Vec<T> {
    let f = Arc::new(f);
    let threads: Vec<_> = Group::in_process(ranks)
        .unwrap()
        .into_iter()
        .map(|g| {
            let f = f.clone();
            thread::spawn(move || f(&g))
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}
fn input(rank: usize, sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    let values: Vec<f64> = (0..count).map(|i| ((rank * 31 + i * 7) as f64).sin() * 2.0).collect();
    Tensor::new(sizes, &values)
}
fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    a.iter().zip(b).for_each(|(x, y)| assert!((x - y).abs() < 1e-9, "{what}: {a:?} and {b:?}"));
}
/// Weights of a loss that differ by rank and element.
fn weights(rank: usize, sizes: &[usize]) -> Tensor {
    input(rank + 100, sizes)
}

/// A collective over all ranks, and the same on the list of all ranks' inputs in one process.
type Everywhere = fn(&Group, &Tensor) -> Tensor;
type Here = fn(&[Tensor], usize) -> Tensor;

/// Values and gradients of a collective are those of the computation in one process whose loss is
/// the sum of all ranks' losses.
fn check(name: &'static str, ranks: usize, sizes: &'static [usize], everywhere: Everywhere, here: Here) {
    let got = on_all(ranks, move |g| {
        let x = input(g.rank(), sizes).requires_grad();
        let y = everywhere(g, &x);
        let loss = (&y * weights(g.rank(), &y.shape().unwrap())).sum(..);
        let dx = grad(&loss, &[x]).unwrap().remove(0);
        let f = {
            let g = g.clone();
            jit(move |a: &[Tensor]| {
                let y = everywhere(&g, &a[0]);
                let loss = (&y * weights(g.rank(), &y.shape()?)).sum(..);
                Ok(vec![y, grad(&loss, &a[..1])?.remove(0)])
            })
        };
        let (x, list) = (input(g.rank(), sizes), |t: &Tensor| t.to_vec::<f64>().unwrap());
        for _ in 0..2 {
            let out = f.call(&[&x]).unwrap();
            assert!(list(&out[0]) == list(&y) && list(&out[1]) == list(&dx), "{name}: jit");
        }
        let fed = placeholder("x", sizes, DType::F64);
        let held = everywhere(g, &fed);
        let out = Session::new().run(&[&held], &[(&fed, &x)]).unwrap();
        assert_eq!(list(&out[0]), list(&y), "{name}: session");
        (list(&y), list(&dx))
    });
    let xs: Vec<Tensor> = (0..ranks).map(|r| input(r, sizes).requires_grad()).collect();
    let ys: Vec<Tensor> = (0..ranks).map(|r| here(&xs, r)).collect();
    let losses = ys.iter().enumerate().map(|(r, y)| (y * weights(r, &y.shape().unwrap())).sum(..));
    let loss = losses.reduce(|a, b| a + b).unwrap();
    let dxs = grad(&loss, &xs).unwrap();
    for (r, (y, dx)) in got.iter().enumerate() {
        close(y, &ys[r].to_vec::<f64>().unwrap(), name);
        close(dx, &dxs[r].to_vec::<f64>().unwrap(), &format!("gradient of {name}"));
    }
}
fn stacked(xs: &[Tensor]) -> Tensor {
    Tensor::concat(&xs.iter().map(|x| x.unsqueeze(0)).collect::<Vec<_>>(), 0)
}

#[test]
fn values_and_gradients_are_those_of_one_process() {
    for n in [2, 3] {
        check("all_reduce sum", n, &[2, 3], |g, x| g.all_reduce(x, Combine::Sum), |xs, _| stacked(xs).sum(0));
        check("all_reduce mean", n, &[4], |g, x| g.all_reduce(x, Combine::Mean), |xs, _| stacked(xs).mean(0));
        check("all_reduce max", n, &[5], |g, x| g.all_reduce(x, Combine::Max), |xs, _| stacked(xs).max(0));
        check("all_reduce min", n, &[5], |g, x| g.all_reduce(x, Combine::Min), |xs, _| stacked(xs).min(0));
        check("all_reduce prod", n, &[5], |g, x| g.all_reduce(x, Combine::Prod), |xs, _| stacked(xs).prod(0));
        check("all_gather 0", n, &[2, 3], |g, x| g.all_gather(x, 0), |xs, _| Tensor::concat(xs, 0));
        check("all_gather -1", n, &[2, 3], |g, x| g.all_gather(x, -1), |xs, _| Tensor::concat(xs, 1));
        check(
            "reduce_scatter",
            n,
            &[2, 6],
            |g, x| g.reduce_scatter(x, Combine::Sum, 1),
            |xs, r| stacked(xs).sum(0).narrow(1, r * 6 / xs.len(), 6 / xs.len()),
        );
        check("broadcast", n, &[3], |g, x| g.broadcast(x, 1), |xs, _| &xs[1] * 1.0);
        check(
            "reduce",
            n,
            &[3],
            |g, x| g.reduce(x, 1, Combine::Mean),
            |xs, r| if r == 1 { stacked(xs).mean(0) } else { &xs[r] * 0.0 },
        );
        check(
            "all_to_all",
            n,
            &[6, 2],
            |g, x| g.all_to_all(x, 0, 1),
            |xs, r| {
                let part = |x: &Tensor| x.narrow(0, r * 6 / xs.len(), 6 / xs.len());
                Tensor::concat(&xs.iter().map(part).collect::<Vec<_>>(), 1)
            },
        );
    }
}

#[test]
fn ranks_that_share_an_extreme_share_its_gradient() {
    let got = on_all(2, |g| {
        let x = Tensor::from([1.0f64, g.rank() as f64]).requires_grad();
        let loss = g.all_reduce(&x, Combine::Max).sum(..);
        grad(&loss, &[x]).unwrap()[0].to_vec::<f64>().unwrap()
    });
    assert_eq!(got, [[1.0, 0.0], [1.0, 2.0]]);
}

#[test]
fn a_sent_tensor_brings_its_gradient_back() {
    for traced in [false, true] {
        let got = on_all(2, move |g| {
            let g = g.clone();
            let step = move |a: &[Tensor]| {
                let factors = Tensor::from([3.0f32, 5.0]);
                let loss = if g.rank() == 0 { g.send(&(&a[0] * 2.0), 1) } else { (g.recv(&a[0], 0) * factors).sum(..) };
                Ok(vec![loss.clone(), grad(&loss, &a[..1])?.remove(0)])
            };
            let x = Tensor::from([1.0f32, 10.0]).requires_grad();
            let out = if traced { jit(step).call(&[&x]) } else { step(&[x]) }.unwrap();
            (out[0].item::<f32>().unwrap(), out[1].to_vec::<f32>().unwrap())
        });
        // Rank 0 sends [2, 20]; what it gets back is what rank 1 multiplied with, times 2.
        assert_eq!(got, [(0.0, vec![6.0, 10.0]), (106.0, vec![0.0, 0.0])], "traced: {traced}");
    }
}

#[test]
fn every_element_type_goes() {
    on_all(2, |g| {
        use DType::*;
        for dtype in [U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64] {
            let x = Tensor::from([1i64 + g.rank() as i64, 3]).cast(dtype);
            let list = |t: Tensor| t.cast(F64).to_vec::<f64>().unwrap();
            assert_eq!(list(g.all_reduce(&x, Combine::Sum)), [3.0, 6.0], "{dtype}");
            assert_eq!(list(g.all_reduce(&x, Combine::Prod)), [2.0, 9.0], "{dtype}");
            assert_eq!(list(g.all_reduce(&x, Combine::Max)), [2.0, 3.0], "{dtype}");
            assert_eq!(list(g.all_gather(&x, 0)), [1.0, 3.0, 2.0, 3.0], "{dtype}");
        }
        assert_eq!(g.all_reduce(&Tensor::zeros([0, 3]), Combine::Sum).shape().unwrap().to_vec(), [0, 3]);
        assert_eq!(g.all_gather(&Tensor::zeros([0, 3]), 1).shape().unwrap().to_vec(), [0, 6]);
        let x = Tensor::from([g.rank() == 0, true]);
        assert_eq!(g.all_reduce(&x, Combine::Max).to_vec::<bool>().unwrap(), [true, true]);
        assert_eq!(g.all_reduce(&x, Combine::Min).to_vec::<bool>().unwrap(), [false, true]);
        assert!(g.all_reduce(&x, Combine::Sum).error().unwrap().to_string().contains("max (any) or min (all)"));
    });
}

#[test]
fn parts_of_a_group_work_side_by_side() {
    let got = on_all(4, |g| {
        let halves = g.split((g.rank() % 2) as i64, -(g.rank() as i64)).unwrap();
        let pair = g.part(&[g.rank() / 2 * 2, g.rank() / 2 * 2 + 1]).unwrap();
        let x = Tensor::from([g.rank() as i64]);
        let list = |t: Tensor| t.to_vec::<i64>().unwrap();
        for _ in 0..3 {
            assert_eq!(list(g.all_reduce(&x, Combine::Sum)), [6]);
            assert_eq!(list(pair.all_reduce(&x, Combine::Sum)), [(g.rank() / 2 * 4 + 1) as i64]);
        }
        g.barrier().unwrap();
        (halves.rank(), list(halves.all_gather(&x, 0)))
    });
    assert_eq!(got, [(1, vec![2, 0]), (1, vec![3, 1]), (0, vec![2, 0]), (0, vec![3, 1])]);
}

#[test]
fn unused_and_equal_collectives_are_carried_out_in_order() {
    // Rank 0 looks at nothing, and both do the same thing twice: nothing may be dropped, merged or
    // swapped, or the last numbers would not fit.
    let got: Vec<Vec<Vec<Vec<f32>>>> = on_all(2, |g| {
        let me = g.clone();
        let f = jit(move |a: &[Tensor]| {
            let first = me.all_reduce(&a[0], Combine::Sum);
            let again = me.all_reduce(&a[0], Combine::Sum);
            let small = me.all_gather(&a[0].narrow(0, 0, 1), 0);
            me.barrier()?;
            let last = me.all_reduce(&(&a[0] * 3.0), Combine::Max);
            Ok(if me.rank() == 0 { vec![] } else { vec![last, again + first, small] })
        });
        let x = Tensor::from([g.rank() as f32 + 1.0, 2.0]);
        (0..3).map(|_| f.call(&[&x]).unwrap().iter().map(|t| t.to_vec::<f32>().unwrap()).collect()).collect()
    });
    let expected: Vec<Vec<Vec<f32>>> = vec![vec![vec![6.0, 6.0], vec![6.0, 8.0], vec![1.0, 2.0]]; 3];
    assert_eq!(got, [vec![vec![]; 3], expected]);
}

#[test]
fn batches_are_exchanged_as_a_whole() {
    on_all(2, |g| {
        let x = input(g.rank(), &[3, 2]);
        let each = |f: &dyn Fn(&Tensor) -> Tensor| {
            let rows: Vec<Tensor> = (0..3).map(|i| f(&x.narrow(0, i, 1).squeeze(0)).unsqueeze(0)).collect();
            Tensor::concat(&rows, 0).to_vec::<f64>().unwrap()
        };
        let sum = |t: &Tensor| g.all_reduce(t, Combine::Sum);
        let got = vmap(|a| Ok(vec![sum(&a[0])]), std::slice::from_ref(&x)).unwrap().remove(0);
        assert_eq!(got.to_vec::<f64>().unwrap(), each(&sum));
        let all = |t: &Tensor| g.all_gather(t, 0);
        let got = vmap(|a| Ok(vec![all(&a[0])]), std::slice::from_ref(&x)).unwrap().remove(0);
        assert_eq!(got.to_vec::<f64>().unwrap(), each(&all));
    });
}

#[test]
fn disagreement_is_an_error_for_everybody() {
    let texts = |got: Vec<Tensor>| -> Vec<String> { got.iter().map(|t| t.error().unwrap().to_string()).collect() };
    let got = texts(on_all(2, |g| g.all_reduce(&Tensor::ones([3 + g.rank()]), Combine::Sum)));
    assert!(got.iter().all(|e| e.contains("of 3 elements of f32") && e.contains("of 4 elements")), "{got:?}");
    assert!(got.iter().all(|e| e.contains("collectives.rs")), "the line is named: {got:?}");
    let got = texts(on_all(2, |g| g.all_reduce(&Tensor::ones([2 + g.rank(), 3 - g.rank()]), Combine::Sum)));
    assert!(got.iter().all(|e| e.contains("in another shape")), "{got:?}");
    let got = texts(on_all(2, |g| {
        let x = Tensor::ones([2]).cast(if g.rank() == 0 { DType::F32 } else { DType::I32 });
        g.all_reduce(&x, Combine::Sum)
    }));
    assert!(got.iter().all(|e| e.contains("f32") && e.contains("i32")), "{got:?}");
    let got = texts(on_all(2, |g| {
        let x = Tensor::ones([2]);
        let first = if g.rank() == 0 { g.all_reduce(&x, Combine::Sum) } else { g.all_gather(&x, 0) };
        // What failed has failed for good, and says why.
        assert!(g.barrier().unwrap_err().to_string().contains("no more collectives after"));
        first
    }));
    assert!(got.iter().all(|e| e.contains("all_reduce") && e.contains("all_gather")), "{got:?}");
}

#[test]
fn bad_calls_are_refused_before_anything_is_sent() {
    let g = &Group::in_process(2).unwrap()[0];
    let x = Tensor::ones([3]);
    let says = |t: Tensor, text: &str| assert!(t.error().unwrap().to_string().contains(text), "{:?}", t.error());
    says(g.broadcast(&x, 2), "root 2 is not one of 2 ranks");
    says(g.send(&x, 0), "does not exchange with itself");
    says(g.recv(&x, 7), "peer 7 is not one of 2 ranks");
    says(g.reduce_scatter(&x, Combine::Sum, 0), "an axis of 3 cannot be cut into 2 equal parts");
    says(g.all_gather(&Tensor::from(1.0f32), 0), "all_gather");
    says(g.all_gather(&x, 1), "out of range");
    says(g.all_reduce(&Tensor::from([1i32]), Combine::Mean), "the mean is of floats");
    assert!(g.part(&[1]).unwrap_err().to_string().contains("rank 0 is not in the group"));
    assert!(g.part(&[0, 5]).unwrap_err().to_string().contains("no rank 5"));
}

/// Packed on the wire: every rank has the same, off by no more than the form's rounding of what was
/// sent and of the sum; gradients go the same way.
#[test]
fn elements_travel_in_fewer_bytes() {
    for (wire, off) in [(Wire::Bf16, 1.0 / 128.0), (Wire::Int8, 1.0 / 60.0)] {
        for ranks in [1, 2, 3] {
            let got = on_all(ranks, move |g| {
                let (n, by) = (g.size(), g.compressed(wire));
                let x = input(g.rank(), &[6, 5]).cast(DType::F32).requires_grad();
                let list = |t: &Tensor| t.to_vec::<f32>().unwrap();
                let near = |a: &Tensor, b: &Tensor, what: &str| {
                    let most = list(&(a - b).abs())[..].iter().fold(0f32, |m, v| m.max(*v));
                    assert!(most <= off * 2.0 * n as f32, "{wire} {ranks} {what}: {most}");
                };
                let sum = by.all_reduce(&x, Combine::Sum);
                near(&sum, &g.all_reduce(&x, Combine::Sum), "all_reduce");
                near(&by.all_reduce(&x, Combine::Mean), &g.all_reduce(&x, Combine::Mean), "mean");
                near(&by.reduce_scatter(&x, Combine::Sum, 0), &g.reduce_scatter(&x, Combine::Sum, 0), "reduce_scatter");
                near(&by.all_gather(&x, 1), &g.all_gather(&x, 1), "all_gather");
                let slope = |y: Tensor| grad(&y.sum(..), std::slice::from_ref(&x)).unwrap().remove(0);
                near(&slope(by.all_reduce(&x, Combine::Sum)), &Tensor::full([6, 5], n as f32), "gradient of a sum");
                near(&slope(by.reduce_scatter(&x, Combine::Sum, 0)), &Tensor::ones([6, 5]), "gradient of a part");
                near(&slope(by.all_gather(&x, 0)), &Tensor::full([6, 5], n as f32), "gradient of all");
                let again = jit({
                    let g = g.clone();
                    move |a: &[Tensor]| Ok(vec![g.compressed(wire).all_reduce(&a[0], Combine::Sum)])
                });
                assert_eq!(list(&again.call(&[&x]).unwrap()[0]), list(&sum), "jit");
                assert_eq!(by.all_reduce(&Tensor::zeros([0]), Combine::Sum).shape().unwrap().to_vec(), [0]);
                let e = by.all_reduce(&x, Combine::Max).error().unwrap().to_string();
                assert!(e.contains("only sums and means"), "{e}");
                let e = by.all_gather(&Tensor::from([1i32]), 0).error().unwrap().to_string();
                assert!(e.contains("are f32, not i32"), "{e}");
                list(&sum)
            });
            assert!(got.iter().all(|x| *x == got[0]), "{wire} {ranks}");
        }
    }
    let said = on_all(2, |g| {
        let wire = if g.rank() == 0 { Wire::Bf16 } else { Wire::Int8 };
        g.compressed(wire).all_reduce(&Tensor::ones([3]), Combine::Sum).error().unwrap().to_string()
    });
    assert!(said.iter().any(|e| e.contains("sent as int8") && e.contains("sent as bf16")), "{said:?}");
}
