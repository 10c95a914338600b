//! Indexing against NumPy 2.4: each case is the NumPy expression, ours, and what NumPy gave for
//! `x = np.arange(24).reshape(2, 3, 4)`.

use cpu as _;
use talweg_ops::{Index, NewAxis, Tensor, grad, i};

fn check(what: &str, got: Tensor, shape: &[usize], data: &[i64]) {
    assert_eq!(got.shape().map(|s| s.to_vec()), Ok(shape.to_vec()), "{what}");
    assert_eq!(got.to_vec::<i64>().unwrap(), data, "{what}");
}
fn x() -> Tensor {
    Tensor::arange(0i64..24).reshape([2, 3, 4])
}

#[test]
fn reads_as_numpy_does() {
    let x = x();
    let moved = x.moveaxis(&[1], &[2]);
    let col = Tensor::from([[0], [1]]);
    let empty = Tensor::new([0], &[] as &[i64]);
    let mask = Tensor::from([true, false, true]);
    let mask2 = Tensor::from([[true, false, true], [false, true, false]]);
    check("x[1]", x.i(1), &[3, 4], &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]);
    check("x[-1]", x.i(-1), &[3, 4], &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]);
    check("x[0, ..., 1:3]", x.i((0, .., 1..3)), &[3, 2], &[1, 2, 5, 6, 9, 10]);
    check(
        "x[..., None]",
        x.i((.., NewAxis)),
        &[2, 3, 4, 1],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    );
    check("x[None, 1, ..., 0]", x.i((NewAxis, 1, .., 0)), &[1, 3], &[12, 16, 20]);
    check("x[:, 1:]", x.i((0.., 1..)), &[2, 2, 4], &[4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]);
    check("x[:, :-1]", x.i((0.., ..-1)), &[2, 2, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19]);
    check("x[:, -2:]", x.i((0.., -2..)), &[2, 2, 4], &[4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]);
    check("x[:, 1:3]", x.i((0.., 1..=2)), &[2, 2, 4], &[4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]);
    check("x[:, 5:9]", x.i((0.., 5..9)), &[2, 0, 4], &[]);
    check(
        "x[..., ::-1]",
        x.index(&i![.., ..; -1]),
        &[2, 3, 4],
        &[3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 19, 18, 17, 16, 23, 22, 21, 20],
    );
    check("x[..., ::3]", x.index(&i![.., ..; 3]), &[2, 3, 2], &[0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23]);
    check(
        "x[:, 2::-2]",
        x.index(&i![0.., Index::slice(2, None, -2)]),
        &[2, 2, 4],
        &[8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15],
    );
    check(
        "x[..., -2:-9:-1]",
        x.index(&i![.., Index::slice(-2, -9, -1)]),
        &[2, 3, 3],
        &[2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 18, 17, 16, 22, 21, 20],
    );
    check(
        "x[[1,0,1]]",
        x.i([1, 0, 1]),
        &[3, 3, 4],
        &[
            12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            17, 18, 19, 20, 21, 22, 23,
        ],
    );
    check("x[:, [2,0]]", x.i((0.., [2, 0])), &[2, 2, 4], &[8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15]);
    check("x[..., [3,-1]]", x.i((.., [3, -1])), &[2, 3, 2], &[3, 3, 7, 7, 11, 11, 15, 15, 19, 19, 23, 23]);
    check("x[[1,0],[2,1]]", x.i(([1, 0], [2, 1])), &[2, 4], &[20, 21, 22, 23, 4, 5, 6, 7]);
    check("x[[1,0],:,[2,1]]", x.i(([1, 0], 0.., [2, 1])), &[2, 3], &[14, 18, 22, 1, 5, 9]);
    check("x[:,[1,0],[2,1]]", x.i((0.., [1, 0], [2, 1])), &[2, 2], &[6, 1, 18, 13]);
    check("x[0,:,[2,1]]", x.i((0, 0.., [2, 1])), &[2, 3], &[2, 6, 10, 1, 5, 9]);
    check("x[:,1,[2,1]]", x.i((0.., 1, [2, 1])), &[2, 2], &[6, 5, 18, 17]);
    check(
        "x[np.array([[0],[1]]),[0,2]]",
        x.i((&col, [0, 2])),
        &[2, 2, 4],
        &[0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23],
    );
    check("x[:,np.array([[0],[1]]),[0,3]]", x.i((0.., &col, [0, 3])), &[2, 2, 2], &[0, 3, 4, 7, 12, 15, 16, 19]);
    check("x[[0,1],None,[0,1]]", x.i(([0, 1], NewAxis, [0, 1])), &[2, 1, 4], &[0, 1, 2, 3, 16, 17, 18, 19]);
    check(
        "x[None,[0,1],:,None]",
        x.i((NewAxis, [0, 1], 0.., NewAxis)),
        &[1, 2, 3, 1, 4],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
    );
    check("x[[1,0],...,[2,1],0]", x.i(([1, 0], .., [2, 1], 0)), &[2], &[20, 4]);
    check("x[[1,0],[0,1],...,[2,1]]", x.i(([1, 0], [0, 1], .., [2, 1])), &[2], &[14, 5]);
    check("x[:,np.array([True,False,True]),1]", x.i((0.., &mask, 1)), &[2, 2], &[1, 9, 13, 21]);
    check(
        "x[np.array([[True,False,True],[False,True,False]])]",
        x.i(&mask2),
        &[3, 4],
        &[0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19],
    );
    check(
        "np.moveaxis(x,1,2)[..., np.array([True,False,True])]",
        moved.i((.., &mask)),
        &[2, 4, 2],
        &[0, 8, 1, 9, 2, 10, 3, 11, 12, 20, 13, 21, 14, 22, 15, 23],
    );
    check("x[1,np.array([True,False,True]),[0,3]]", x.i((1, &mask, [0, 3])), &[2], &[12, 23]);
    check("x[np.zeros(0,int),:]", x.i((&empty, 0..)), &[0, 3, 4], &[]);
}

#[test]
fn writes_what_it_would_read() {
    let x = Tensor::arange(0i64..6).reshape([2, 3]);
    check("y[1] = 9", x.index_put(1, 9), &[2, 3], &[0, 1, 2, 9, 9, 9]);
    check(
        "y[:, ::2] = [[7], [8]]",
        x.index_put(i![0.., ..; 2].to_vec(), Tensor::from([[7], [8]])),
        &[2, 3],
        &[7, 1, 7, 8, 4, 8],
    );
    check(
        "y[[0, 1], [2, 0]] = [7, 8]",
        x.index_put(([0, 1], [2, 0]), Tensor::from([7, 8])),
        &[2, 3],
        &[0, 1, 7, 8, 4, 5],
    );
    check("y[y > 3] = 0", x.index_put(x.gt(3), 0), &[2, 3], &[0, 1, 2, 3, 0, 0]);
    check("np.add.at(y, (0, [1, 1]), 10)", x.index_put_add((0, [1, 1]), 10), &[2, 3], &[0, 21, 2, 3, 4, 5]);
}

#[test]
fn gradients_go_back_to_the_places() {
    let x = Tensor::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]]).requires_grad();
    let picked = x.i((0.., [2, 2]));
    let g = &grad(&(&picked * &picked).sum(..), std::slice::from_ref(&x)).unwrap()[0];
    assert_eq!(g.to_vec::<f64>().unwrap(), [0.0, 0.0, 12.0, 0.0, 0.0, 24.0]);
    let v = Tensor::from(2.0f64).requires_grad();
    let y = x.index_put((0.., 1), &v);
    let g = grad(&(&y * &y).sum(..), &[x, v]).unwrap();
    assert_eq!(g[0].to_vec::<f64>().unwrap(), [2.0, 0.0, 6.0, 8.0, 0.0, 12.0]);
    assert_eq!(g[1].item::<f64>().unwrap(), 8.0);
}

#[test]
fn errors_name_the_index_and_the_axis() {
    let x = x();
    let says = |t: Tensor, what: &str| {
        let e = t.eval().unwrap_err().to_string();
        assert!(e.contains(what), "{e} does not say {what}");
    };
    says(x.i((0, 3)), "index: index 3 is out of range for axis 1 of size 3");
    says(x.i((0.., [0, -4])), "index -4 is out of range for axis 1 of size 3");
    says(x.i((0, 0, 0, 0)), "4 axes are indexed, but the shape is [2, 3, 4]");
    says(x.i((.., ..)), "`..` may stand once");
    says(x.i(Tensor::from([0.5f32])), "the index must be an integer, not f32");
    says(x.i(Tensor::from([true])), "a mask of shape [1] does not fit [2, 3, 4] from axis 0");
    says(x.index(&i![0..2; 0]), "the step of a slice must not be 0");
    says(x.i(([0, 1], [0, 1, 2])), "broadcast");
    says(x.index_put(0, Tensor::from([1, 2])), "values of shape [2] do not broadcast to [3, 4]");
    says(x.take(&Tensor::from([5]), 1), "take: index 5 is out of range for axis 1 of size 3");
    says(x.gather(0, &Tensor::from([[[2]]])), "gather: index 2 is out of range for axis 0 of size 2");
}
