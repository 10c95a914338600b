//! Collectives between threads: the same bits whichever way, for any number of ranks; errors end
//! the wait of all ranks.

use net::{Connection, Listener};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::collective::{Algorithm, Combine, Element, Mesh, part};
use talweg_dist::{Error, Hello, Overlap, merge};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
/// Runs `f` on every rank and answers what each returned.
fn on_all<T: Send + 'static>(ranks: usize, f: impl Fn(&mut Mesh) -> T + Send + Sync + 'static) -> Vec<T> {
    let f = Arc::new(f);
    let threads: Vec<_> = Mesh::in_process(ranks)
        .unwrap()
        .into_iter()
        .map(|mut g| {
            let f = f.clone();
            thread::spawn(move || f(&mut g))
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}
/// Numbers whose sum depends on the order of additions.
fn numbers(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((rank * 7919 + i * 31) as f32).sin() * 10f32.powi((i % 7) as i32 - 3)).collect()
}
fn expected(ranks: usize, len: usize) -> Vec<f32> {
    merge::tree_sum((0..ranks).map(|r| Arc::new(numbers(r, len))).collect::<Vec<_>>()).to_vec()
}

#[test]
fn every_way_gives_the_same_bits() {
    for ranks in [1usize, 2, 3, 4, 5, 8] {
        for len in [1, 5, 1000, 70_000] {
            let ways = if ranks.is_power_of_two() {
                vec![Algorithm::Doubling, Algorithm::Halving, Algorithm::Direct]
            } else {
                vec![Algorithm::Direct]
            };
            for way in ways {
                let got = on_all(ranks, move |g| {
                    let mut x = numbers(g.rank(), len);
                    let bytes = bytemuck::cast_slice_mut(&mut x);
                    g.all_reduce_by(way, bytes, Element::F32, Combine::Sum, soon()).unwrap();
                    x
                });
                got.iter().for_each(|x| assert!(*x == expected(ranks, len), "{ranks} ranks, {len} elements, {way:?}"));
            }
        }
    }
}

#[test]
fn sums_that_no_cache_holds_give_the_same_bits() {
    // After a message of one byte nothing that follows is aligned in the memory that ranks share.
    const LEN: usize = 5_000_001;
    let got = on_all(2, |g| {
        g.broadcast(&mut [g.rank() as u8], 0, soon()).unwrap();
        let mut x = numbers(g.rank(), LEN);
        g.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Sum, soon()).unwrap();
        let mut y: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        g.all_reduce(bytemuck::cast_slice_mut(&mut y), Element::F64, Combine::Sum, soon()).unwrap();
        (x, y)
    });
    let sum = expected(2, LEN);
    for (x, y) in got {
        assert!(x == sum && y.iter().zip(&sum).all(|(y, s)| *y == 2.0 * f64::from(*s)));
    }
}

/// A socket between two ranks, in a process that was told to use them.
fn socket() -> (Connection, Connection) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::default(), None, soon()).unwrap());
    let answered = listener.accept().unwrap().handshake(soon()).unwrap();
    let called = call.join().unwrap();
    assert!(!called.is_shared());
    (called, answered)
}

#[test]
fn long_sums_go_over_links_of_different_kinds() {
    if std::env::var_os("TALWEG_LINK").is_none() {
        // How links go is said by the environment, so another process has to do it.
        let name = "long_sums_go_over_links_of_different_kinds";
        let me = Command::new(std::env::current_exe().unwrap()).arg(name).env("TALWEG_LINK", "socket").status();
        return assert!(me.unwrap().success());
    }
    const LEN: usize = 1_500_000;
    // Two ranks share memory, the third does not.
    let (a, b) = Connection::pair().unwrap();
    let ((c, d), (e, f)) = (socket(), socket());
    let links = [vec![None, Some(a), Some(c)], vec![Some(b), None, Some(e)], vec![Some(d), Some(f), None]];
    let ranks = links.into_iter().enumerate().map(|(rank, links)| {
        let mut g = Mesh::new(rank, 1, links).unwrap();
        thread::spawn(move || {
            let mut x = numbers(rank, LEN);
            g.all_reduce(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Sum, soon()).unwrap();
            x
        })
    });
    let ranks: Vec<_> = ranks.collect();
    let sum = expected(3, LEN);
    ranks.into_iter().for_each(|r| assert!(r.join().unwrap() == sum));
}

#[test]
fn packed_sums_are_the_same_everywhere_and_right_over_many_calls() {
    const CALLS: usize = 600;
    for filter in ["bf16", "int8", "1bit", "top:0.1"] {
        let got = on_all(3, move |g| {
            let (x, mut residual) = (numbers(g.rank(), 500), vec![0.0; 500]);
            let mut total = vec![0.0f64; 500];
            for _ in 0..CALLS {
                let mut sum = x.clone();
                g.all_reduce_packed(&mut sum, filter.parse().unwrap(), &mut residual, soon()).unwrap();
                total.iter_mut().zip(&sum).for_each(|(t, s)| *t += f64::from(*s));
            }
            total
        });
        assert!(got[0] == got[1] && got[1] == got[2], "{filter}");
        let off = got[0].iter().zip(expected(3, 500)).map(|(t, e)| (t / CALLS as f64 - f64::from(e)).abs() / 1000.0);
        let most = off.fold(0.0, f64::max);
        assert!(most < 0.1, "{filter}: {most} of the greatest element");
    }
    // NaN reaches every rank and is not in the residual.
    let got = on_all(2, |g| {
        let (mut x, mut residual) = (vec![1.0; 600], vec![0.0; 600]);
        x[300] = if g.rank() == 0 { f32::NAN } else { 1.0 };
        g.all_reduce_packed(&mut x, "int8".parse().unwrap(), &mut residual, soon()).unwrap();
        assert!(residual.iter().all(|r| r.is_finite()));
        (x[0], x[300].is_nan())
    });
    assert_eq!(got, [(2.0, true); 2]);
}

#[test]
fn buckets_in_the_background_give_the_same_bits() {
    let threads: Vec<_> = Mesh::in_process(2)
        .unwrap()
        .into_iter()
        .map(|mut g| {
            thread::spawn(move || {
                let rank = g.rank();
                let mut sums = Overlap::new(move |_, bucket| {
                    g.all_reduce(bytemuck::cast_slice_mut(bucket), Element::F32, Combine::Sum, soon())
                })
                .unwrap();
                let x = numbers(rank, 10_000);
                let mut out = vec![0.0; 10_000];
                for round in 0..3 {
                    // Each rank makes them in another order.
                    let buckets = [&[(0, 7), (7, 5_000)][..], &[(5_000, 9_999)], &[(9_999, 10_000)]];
                    for i in 0..3 {
                        let b = (i + rank + round) % 3;
                        sums.begin(b, 3, buckets[b].iter().map(|r| &x[r.0..r.1])).unwrap();
                    }
                    assert!(sums.begin(0, 3, [&x[..7]]).unwrap_err().to_string().contains("begun already"));
                    for (b, parts) in buckets.iter().enumerate().rev() {
                        let whole = parts[0].0..parts[parts.len() - 1].1;
                        sums.end(b, 3, |values| out[whole].copy_from_slice(values)).unwrap();
                    }
                }
                assert!(sums.end(0, 3, |_| ()).unwrap_err().to_string().contains("has not begun"));
                out
            })
        })
        .collect();
    threads.into_iter().for_each(|t| assert!(t.join().unwrap() == expected(2, 10_000)));
}

#[test]
fn an_error_in_the_background_is_told() {
    let mut sums = Overlap::new(|_, b| if b[0] > 1.0 { Err(Error::value("too much")) } else { Ok(()) }).unwrap();
    sums.begin(0, 2, [&[2.0][..]]).unwrap();
    sums.begin(1, 2, [&[1.0][..]]).unwrap();
    assert!(sums.end(0, 2, |_| ()).unwrap_err().to_string().contains("too much"));
    assert_eq!(sums.end(1, 2, <[f32]>::to_vec).unwrap(), [1.0]);
    sums.begin(0, 1, [&[0.5][..]]).unwrap();
    assert_eq!(sums.end(0, 1, <[f32]>::to_vec).unwrap(), [0.5]);
}

#[test]
fn parts_are_scattered_and_gathered() {
    for ranks in [2, 3, 4] {
        let len = 1001;
        let got = on_all(ranks, move |g| {
            let mut x = numbers(g.rank(), len);
            let mine = g.reduce_scatter(bytemuck::cast_slice_mut(&mut x), Element::F32, Combine::Sum, soon()).unwrap();
            let own = part(len, g.ranks(), g.rank());
            assert_eq!(mine, own.start * 4..own.end * 4);
            // Everything but the own part is garbage until it is gathered.
            x.iter_mut().enumerate().filter(|(i, _)| !own.contains(i)).for_each(|(_, v)| *v = f32::NAN);
            g.all_gather(bytemuck::cast_slice_mut(&mut x), 4, soon()).unwrap();
            x
        });
        got.iter().for_each(|x| assert!(*x == expected(ranks, len), "{ranks} ranks"));
    }
}

#[test]
fn broadcast_from_any_root() {
    for ranks in [1, 2, 3, 5, 8] {
        for root in 0..ranks {
            let got = on_all(ranks, move |g| {
                let mut x = vec![g.rank() as u8; 100_000];
                g.broadcast(&mut x, root, soon()).unwrap();
                x
            });
            assert!(got.iter().all(|x| x.iter().all(|b| *b as usize == root)), "{ranks} ranks, root {root}");
        }
    }
}

#[test]
fn everybody_to_everybody() {
    let got = on_all(3, |g| {
        let send: Vec<u8> = (0..3).flat_map(|to| [g.rank() as u8 * 10 + to; 2]).collect();
        let mut receive = vec![0; 6];
        g.all_to_all(&send, &mut receive, soon()).unwrap();
        g.barrier(soon()).unwrap();
        receive
    });
    assert_eq!(got, [vec![0, 0, 10, 10, 20, 20], vec![1, 1, 11, 11, 21, 21], vec![2, 2, 12, 12, 22, 22]]);
}

#[test]
fn greatest_least_and_integers() {
    let got = on_all(3, |g| {
        let mut most = [g.rank() as f64, -1.0];
        g.all_reduce(bytemuck::cast_slice_mut(&mut most), Element::F64, Combine::Max, soon()).unwrap();
        let mut count = [1i64 << 40];
        g.all_reduce(bytemuck::cast_slice_mut(&mut count), Element::I64, Combine::Sum, soon()).unwrap();
        (most, count)
    });
    assert!(got.iter().all(|x| *x == ([2.0, -1.0], [3 << 40])));
}

#[test]
fn two_ranks_talk_while_others_do_not() {
    let got = on_all(3, |g| {
        let mut x = [0; 3];
        match g.rank() {
            0 => g.send(2, &[1, 2, 3], soon()).unwrap(),
            2 => g.receive(0, &mut x, soon()).unwrap(),
            _ => {}
        }
        g.barrier(soon()).unwrap();
        x
    });
    assert_eq!(got[2], [1, 2, 3]);
}

#[test]
fn a_lost_rank_ends_everybodys_wait() {
    let got = on_all(4, |g| {
        if g.rank() == 2 {
            g.close();
            return true;
        }
        let mut x = vec![0; 400_000];
        let failed = g.all_reduce(&mut x, Element::F32, Combine::Sum, soon()).is_err();
        failed && g.is_broken()
    });
    assert_eq!(got, [true; 4]);
}

#[test]
fn different_calls_are_an_error_not_a_wrong_sum() {
    let got = on_all(2, |g| {
        let mut x = vec![0; 8 * (1 + g.rank())];
        g.all_reduce(&mut x, Element::F32, Combine::Sum, soon()).map_err(|e| e.to_string())
    });
    assert!(got.iter().any(|r| r.as_ref().is_err_and(|e| e.contains("the same collectives"))), "{got:?}");
}

#[test]
fn a_silent_rank_costs_no_more_than_the_deadline() {
    let mut groups = Mesh::in_process(2).unwrap();
    let mut x = [0; 4];
    let e = groups[0].all_reduce(&mut x, Element::F32, Combine::Sum, Instant::now() + Duration::from_millis(30));
    assert!(e.unwrap_err().to_string().contains("deadline"));
    assert!(groups[0].barrier(soon()).unwrap_err().to_string().contains("broken"));
}
