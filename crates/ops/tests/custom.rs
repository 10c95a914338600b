//! Ops of the program's own: batched in each way, differentiated to second order, ordered.

use cpu as _;
use ir::{CustomOp, Error, GradCall, Result, Type, Types, Value, Vmap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use talweg_ops::control::scan;
use talweg_ops::derivatives::grad_of;
use talweg_ops::{Tensor, custom, vmap};

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// x·y, elementwise, with its gradient; counts its calls.
struct Product(Vmap, Arc<AtomicUsize>);

impl Product {
    fn of(how: Vmap, calls: &Arc<AtomicUsize>, x: &Tensor, y: &Tensor, ordered: bool) -> Tensor {
        custom(Arc::new(Product(how, calls.clone())), &[x, y], ordered).swap_remove(0)
    }
}

impl CustomOp for Product {
    fn name(&self) -> &str {
        "product"
    }
    fn infer(&self, types: &[Type]) -> Result<Types> {
        match types {
            [x, y] if x == y => Ok(vec![x.clone()].into()),
            _ => Err(Error::shape("two factors of one type are needed")),
        }
    }
    fn run(&self, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let (x, y) = (floats(inputs[0].1), floats(inputs[1].1));
        for (i, out) in outputs[0].1.chunks_exact_mut(8).enumerate() {
            out.copy_from_slice(&(x[i % x.len()] * y[i % y.len()]).to_ne_bytes());
        }
        Ok(())
    }
    fn grad(&self, c: &GradCall) -> Result<Vec<Option<Value>>> {
        let [x, y] = [0, 1].map(|i| Tensor::from(c.inputs[i].clone()));
        let Some(g) = c.grads[0].clone().map(Tensor::from) else { return Ok(vec![None, None]) };
        // Through the op itself, so that it can be differentiated again.
        let of = |f: &Tensor| Product::of(self.0, &self.1, &g, f, false).value().cloned().map(Some);
        Ok(vec![of(&y)?, of(&x)?])
    }
    fn vmap(&self) -> Vmap {
        self.0
    }
}

#[test]
fn gradients_of_second_order() {
    let calls = Arc::default();
    let cube = |x: &[Tensor]| {
        let square = Product::of(Vmap::Sequential, &calls, &x[0], &x[0], false);
        Ok(Product::of(Vmap::Sequential, &calls, &square, &x[0], false).sum(..))
    };
    let x = Tensor::from([1.0f64, 3.0]);
    let slope = |x: &[Tensor]| Ok(grad_of(cube)(x)?[0].sum(..));
    assert_eq!(grad_of(cube)(std::slice::from_ref(&x)).unwrap()[0].to_vec::<f64>().unwrap(), [3.0, 27.0]);
    assert_eq!(grad_of(slope)(&[x]).unwrap()[0].to_vec::<f64>().unwrap(), [6.0, 18.0]);
}

#[test]
fn a_batch_in_each_way() {
    for (how, want) in [(Vmap::Sequential, 3), (Vmap::ExpandDims, 1), (Vmap::BroadcastAll, 1)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let (xs, y) = (Tensor::from([[0.0f64, 1.0], [2.0, 3.0], [4.0, 5.0]]), Tensor::from([2.0f64, 3.0]));
        let of = |xs: &Tensor, y: &Tensor| {
            vmap(|a| Ok(vec![Product::of(how, &calls, &a[0], y, false)]), std::slice::from_ref(xs))
        };
        let done = of(&xs, &y).unwrap()[0].to_vec::<f64>().unwrap();
        assert_eq!((done, calls.load(Ordering::Relaxed)), (vec![0.0, 3.0, 4.0, 9.0, 8.0, 15.0], want), "{how:?}");
        let slopes = grad_of(|a: &[Tensor]| Ok(of(&a[0], &a[1])?[0].sum(..)))(&[xs, y]).unwrap();
        assert_eq!(slopes[0].to_vec::<f64>().unwrap(), [2.0, 3.0, 2.0, 3.0, 2.0, 3.0], "{how:?}");
        assert_eq!(slopes[1].to_vec::<f64>().unwrap(), [6.0, 9.0], "{how:?}");
    }
}

#[test]
fn errors_have_the_op_s_name() {
    let e = Product::of(Vmap::Sequential, &Arc::default(), &Tensor::from([1.0f64]), &Tensor::from(2.0f64), false);
    let e = e.error().unwrap().to_string();
    assert!(e.starts_with("product: two factors of one type are needed (at "), "{e}");
}

#[test]
fn effects_happen_whether_or_not_they_are_used() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = || calls.load(Ordering::Relaxed);
    let effect = |x: &Tensor| Product::of(Vmap::Sequential, &calls, x, x, true);
    let x = Tensor::from([2.0f64]);
    effect(&x);
    assert_eq!(count(), 1, "at once");
    let f = |a: &[Tensor]| {
        effect(&a[0]);
        Ok(a[0].sum(..))
    };
    grad_of(f)(std::slice::from_ref(&x)).unwrap();
    assert_eq!(count(), 2, "in a function that is differentiated");
    vmap(|a| Ok(vec![f(a)?]), &[Tensor::from([[1.0f64], [2.0]])]).unwrap();
    assert_eq!(count(), 4, "and batched");
    let lost = |c: &[Tensor], x: &[Tensor]| {
        effect(&x[0]);
        Ok((c.to_vec(), vec![]))
    };
    let e = scan(lost, std::slice::from_ref(&x), &[Tensor::from([[1.0f64], [2.0]])]).unwrap_err().to_string();
    assert!(e.contains("runs only where its result is used"), "{e}");
}
