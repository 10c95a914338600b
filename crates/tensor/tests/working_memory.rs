//! Working memory is shared by the programs of all shapes.

use talweg_tensor::{Tensor, jit};

/// One test alone in its process, as arenas are counted for all threads.
#[test]
fn traces_of_many_shapes_share_one_arena() {
    let f = jit(|a: &[Tensor]| {
        let h = a[0].matmul(&a[0].t()).tanh();
        Ok(vec![h.matmul(&h).exp().sum(..)])
    });
    let mut before = 0;
    for n in (100..300).step_by(10) {
        let x = Tensor::ones([n, n]);
        f.call(&[&x]).unwrap();
        f.call(&[&x]).unwrap();
        let kept = cpu::arenas::kept_bytes();
        // Two matrices are alive at once, and what products need beside them.
        assert!((2 * n * n * 4..5 * n * n * 4).contains(&kept), "{kept} bytes for {n} × {n}");
        assert!(kept > before, "a larger arena replaces a smaller one");
        before = kept;
    }
    let largest = before;
    assert_eq!(f.traces(), 20);
    for n in (100..300).step_by(10) {
        f.call(&[&Tensor::ones([n, n])]).unwrap();
        assert_eq!(cpu::arenas::kept_bytes(), largest);
    }
}
