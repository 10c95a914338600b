//! Attention against the definition in double precision, gradients included.

use super::super::testing::{Noise, assert_close};
use super::*;

struct Truth {
    out: Vec<f64>,
    lse: Vec<f64>,
    dq: Vec<f64>,
    dk: Vec<f64>,
    dv: Vec<f64>,
}

fn truth(a: &Attention<'_>, q: &[f32], k: &[f32], v: &[f32], dout: &[f32]) -> Truth {
    let heads = a.kv_of.len();
    let mut t = Truth {
        out: vec![0.0; heads * a.queries * a.dv],
        lse: vec![0.0; heads * a.queries],
        dq: vec![0.0; q.len()],
        dk: vec![0.0; k.len()],
        dv: vec![0.0; v.len()],
    };
    for h in 0..heads {
        for i in 0..a.queries {
            let qi = (h * a.queries + i) * a.d;
            let oi = (h * a.queries + i) * a.dv;
            let key = |j: usize| (a.kv_of[h] * a.keys + j) * a.d;
            let value = |j: usize| (a.kv_of[h] * a.keys + j) * a.dv;
            let score = |j: usize| {
                let hidden = a.causal.is_some_and(|o| j as isize > i as isize + o)
                    || a.lengths.is_some_and(|l| i >= l[h][0] || j >= l[h][1]);
                let dot: f64 = (0..a.d).map(|c| q[qi + c] as f64 * k[key(j) + c] as f64).sum();
                let extra = a.mask.map_or(0.0, |m| m.data[m.starts[h] + i * m.row + j] as f64);
                if hidden { f64::NEG_INFINITY } else { dot * a.scale as f64 + extra }
            };
            let e: Vec<f64> = (0..a.keys).map(|j| score(j).exp()).collect();
            let sum: f64 = e.iter().sum();
            t.lse[h * a.queries + i] = sum.ln();
            if sum == 0.0 {
                continue;
            }
            let p: Vec<f64> = e.iter().map(|e| e / sum).collect();
            let dp: Vec<f64> =
                (0..a.keys).map(|j| (0..a.dv).map(|c| dout[oi + c] as f64 * v[value(j) + c] as f64).sum()).collect();
            let dot: f64 = p.iter().zip(&dp).map(|(p, d)| p * d).sum();
            for j in 0..a.keys {
                for c in 0..a.dv {
                    t.out[oi + c] += p[j] * v[value(j) + c] as f64;
                    t.dv[value(j) + c] += p[j] * dout[oi + c] as f64;
                }
                let ds = p[j] * (dp[j] - dot) * a.scale as f64;
                for c in 0..a.d {
                    t.dq[qi + c] += ds * k[key(j) + c] as f64;
                    t.dk[key(j) + c] += ds * q[qi + c] as f64;
                }
            }
        }
    }
    t
}

fn check_case(a: &Attention<'_>, noise: &mut Noise, what: &str) {
    let heads = a.kv_of.len();
    let (q, k) = (noise.f32s(heads * a.queries * a.d), noise.f32s(a.kv_heads * a.keys * a.d));
    let (v, dout) = (noise.f32s(a.kv_heads * a.keys * a.dv), noise.f32s(heads * a.queries * a.dv));
    let (mut out, mut lse) = (vec![9f32; dout.len()], vec![9f32; heads * a.queries]);
    let apart = |n: usize, each: usize| (0..n).map(|h| h * each).collect::<Vec<usize>>();
    let (sq, sk) = (apart(heads, a.queries * a.d), apart(a.kv_heads, a.keys * a.d));
    let (sv, so) = (apart(a.kv_heads, a.keys * a.dv), apart(heads, a.queries * a.dv));
    let rows = |data, starts, row| Rows { data, starts, row };
    let (rq, rk, rv) = (rows(&q, &sq, a.d), rows(&k, &sk, a.d), rows(&v, &sv, a.dv));
    // SAFETY: the output is apart from everything else.
    unsafe { a.forward(&rq, &rk, &rv, RowsMut::new(out.as_mut_ptr(), &so, a.dv), &mut lse) };
    let want = truth(a, &q, &k, &v, &dout);
    assert_close(&out, &want.out, 1e-5, &format!("{what}: out"));
    for (g, w) in lse.iter().zip(&want.lse) {
        assert!((*g as f64 - w).abs() < 1e-5 || *g as f64 == *w, "{what}: lse {g} {w}");
    }
    // Rows of gradients lie apart, and what is between them stays.
    const GAP: usize = 3;
    let sizes = [(heads, a.queries, a.d), (a.kv_heads, a.keys, a.d), (a.kv_heads, a.keys, a.dv)];
    let mut rooms = sizes.map(|(n, rows, cols)| vec![9f32; n * rows * (cols + GAP)]);
    let starts = sizes.map(|(n, rows, cols)| apart(n, rows * (cols + GAP)));
    let (out, dout) = (rows(&out, &so, a.dv), rows(&dout, &so, a.dv));
    let saved = Saved { q: rq, k: rk, v: rv, out, lse: &lse, dout };
    let mut places = rooms.iter_mut().zip(&starts).zip(&sizes);
    let grads = [(); 3].map(|()| {
        let ((room, starts), (_, _, cols)) = places.next().unwrap();
        RowsMut::new(room.as_mut_ptr(), starts, cols + GAP)
    });
    // SAFETY: each gradient has a room of its own.
    unsafe { a.backward(&saved, grads) };
    for (((room, (_, _, cols)), want), name) in
        rooms.iter().zip(&sizes).zip([want.dq, want.dk, want.dv]).zip(["dq", "dk", "dv"])
    {
        let got: Vec<f32> = room.chunks(cols + GAP).flat_map(|row| row[..*cols].to_vec()).collect();
        assert_close(&got, &want, 3e-5, &format!("{what}: {name}"));
        assert!(room.chunks(cols + GAP).all(|row| row[*cols..] == [9.0; GAP]), "{what}: {name} between the rows");
    }
}

#[test]
fn random_attentions() {
    let mut noise = Noise::new(41);
    for round in 0..60 {
        let kv_heads = noise.range(1, 5);
        let heads = noise.range(1, 6);
        let kv_of: Vec<usize> = (0..heads).map(|_| noise.range(0, kv_heads - 1)).collect();
        let (queries, keys) = match round % 3 {
            0 => (noise.range(1, 20), noise.range(1, 20)),
            1 => (1, noise.range(1, 600)),
            _ => (noise.range(100, 150), noise.range(240, 300)),
        };
        let mask = noise.f32s(heads * queries * keys);
        let each = if noise.flip() { queries * keys } else { 0 };
        let starts: Vec<usize> = (0..heads).map(|h| h * each).collect();
        let d = noise.range(1, 20);
        let lengths: Vec<[usize; 2]> = (0..heads).map(|_| [noise.range(0, queries), noise.range(0, keys)]).collect();
        let a = Attention {
            kv_of: &kv_of,
            kv_heads,
            queries,
            keys,
            d,
            dv: noise.range(1, 20),
            scale: 1.0 / (d as f32).sqrt(),
            causal: match noise.range(0, 2) {
                0 => None,
                1 => Some(0),
                _ => Some(keys as isize - queries as isize),
            },
            mask: noise.flip().then_some(Rows { data: &mask, starts: &starts, row: keys }),
            lengths: noise.flip().then_some(&lengths),
        };
        check_case(&a, &mut noise, &format!("round {round}: {queries} queries, {keys} keys, {:?}", a.causal));
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let a = Attention {
        kv_of: &[0],
        kv_heads: 1,
        queries: 2,
        keys: 3,
        d: 1,
        dv: 1,
        scale: 1.0,
        causal: None,
        mask: None,
        lengths: None,
    };
    let (mut out, mut lse) = ([0f32; 2], [0f32; 2]);
    let rows = |data| Rows { data, starts: &[0], row: 1 };
    let (q, k, v) = ([1000.0, -1000.0], [1.0, 0.0, -1.0], [1.0, 2.0, 3.0]);
    // SAFETY: the output is apart from everything else.
    unsafe { a.forward(&rows(&q), &rows(&k), &rows(&v), RowsMut::new(out.as_mut_ptr(), &[0], 1), &mut lse) };
    assert_eq!((out, lse), ([1.0, 3.0], [1000.0, 1000.0]));
}

#[test]
fn a_query_without_keys_gives_zeros() {
    let a = Attention {
        kv_of: &[0],
        kv_heads: 1,
        queries: 3,
        keys: 2,
        d: 2,
        dv: 2,
        scale: 1.0,
        causal: Some(-1),
        mask: None,
        lengths: None,
    };
    check_case(&a, &mut Noise::new(5), "no keys");
    let hidden = [f32::NEG_INFINITY; 2];
    let mask = Some(Rows { data: &hidden, starts: &[0], row: 0 });
    let ones = Rows { data: &[1.0; 6], starts: &[0], row: 2 };
    let (mut out, mut lse) = ([9f32; 6], [9f32; 3]);
    let to = RowsMut::new(out.as_mut_ptr(), &[0], 2);
    // SAFETY: the output is apart from everything else.
    unsafe { Attention { causal: None, mask, ..a }.forward(&ones, &ones, &ones, to, &mut lse) };
    assert_eq!((out, lse), ([0.0; 6], [f32::NEG_INFINITY; 3]));
}
