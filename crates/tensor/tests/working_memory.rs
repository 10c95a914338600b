//! Working memory is shared by the programs of all shapes.

use talweg_tensor::{Tensor, jit};

/// One test alone in its process, as arenas are counted for all threads.
#[test]
fn traces_of_many_shapes_share_one_arena() {
    let f = jit(|a: &[Tensor]| {
        let h = a[0].matmul(&a[0].t()).tanh();
        Ok(vec![h.matmul(&h).exp().sum(..)])
    });
    let mut sum = 0;
    for n in (100..300).step_by(10) {
        let x = Tensor::ones([n, n]);
        // The second run keeps its memory.
        f.call(&[&x]).unwrap();
        f.call(&[&x]).unwrap();
        sum += cpu::arenas::kept_bytes();
    }
    let largest = cpu::arenas::kept_bytes();
    // Two matrices of 290 × 290 are alive at once.
    assert!((2 * 290 * 290 * 4..6 * 290 * 290 * 4).contains(&largest), "{largest} bytes");
    assert!(sum < 20 * largest, "smaller shapes kept less");
    assert_eq!(f.traces(), 20);
    for n in (100..300).step_by(10) {
        f.call(&[&Tensor::ones([n, n])]).unwrap();
        assert_eq!(cpu::arenas::kept_bytes(), largest);
    }
}
