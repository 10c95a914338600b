//! The line search of L-BFGS: a step length at which the loss has fallen enough and its slope has
//! flattened enough (the strong Wolfe conditions), by bracketing and cubic interpolation (Nocedal
//! and Wright, Numerical Optimization, chapter 3).

use tensor::{Result, Tensor};

/// The fraction of the predicted decrease that is required (Armijo condition).
const FALL: f64 = 1e-4;
/// The fraction of the initial slope to which it must have flattened (curvature condition).
const FLATNESS: f64 = 0.9;

/// A point along the direction.
#[derive(Clone)]
pub(super) struct Point {
    /// How far along.
    pub t: f64,
    /// The loss there.
    pub f: f64,
    /// Its slope along the direction.
    pub slope: f64,
    /// Its gradient.
    pub grad: Tensor,
}

/// The point found and how many were tried: the first step `t`, and `more` at most. Intervals
/// shorter than `least` are not divided further.
pub(super) fn search(
    start: Point,
    t: f64,
    least: f64,
    more: usize,
    mut at: impl FnMut(f64) -> Result<Point>,
) -> Result<(Point, usize)> {
    let is_high = |p: &Point| p.f > start.f + FALL * p.t * start.slope;
    let is_flat = |p: &Point| p.slope.abs() <= -FLATNESS * start.slope;

    // Outwards, until the lowest point lies between two of ours.
    let (mut before, mut now, mut tries) = (start.clone(), at(t)?, 0);
    let mut ends = loop {
        if tries == more {
            break [before, now];
        }
        let is_behind = is_high(&now) || (tries > 1 && now.f >= before.f);
        if !is_behind && is_flat(&now) {
            return Ok((now, tries + 1));
        }
        if is_behind || now.slope >= 0.0 {
            break [before, now];
        }
        let next = cubic(&before, &now, now.t + 0.01 * (now.t - before.t), now.t * 10.0);
        before = std::mem::replace(&mut now, at(next)?);
        tries += 1;
    };

    // Inwards.
    let lower = |ends: &[Point; 2]| if ends[0].f <= ends[1].f { 0 } else { 1 };
    let (mut low, mut is_slow) = (lower(&ends), false);
    while tries < more {
        let (from, to) = (ends[0].t.min(ends[1].t), ends[0].t.max(ends[1].t));
        if to - from < least {
            break;
        }
        let t = cubic(&ends[0], &ends[1], from, to);
        let t = away_from_the_ends(t, from, to, &mut is_slow);
        let new = at(t)?;
        tries += 1;
        if is_high(&new) || new.f >= ends[low].f {
            ends[1 - low] = new;
            low = lower(&ends);
        } else if is_flat(&new) {
            return Ok((new, tries + 1));
        } else {
            if new.slope * (ends[1 - low].t - ends[low].t) >= 0.0 {
                ends[1 - low] = ends[low].clone();
            }
            ends[low] = new;
        }
    }
    let [a, b] = ends;
    Ok((if low == 0 { a } else { b }, tries + 1))
}

/// Twice in a row close to an end, or at one: a tenth of the interval away from it.
fn away_from_the_ends(t: f64, from: f64, to: f64, is_slow: &mut bool) -> f64 {
    let margin = 0.1 * (to - from);
    let is_close = (to - t).min(t - from) < margin;
    if !is_close || !(*is_slow || t >= to || t <= from) {
        *is_slow = is_close;
        return t;
    }
    *is_slow = false;
    if (t - to).abs() < (t - from).abs() { to - margin } else { from + margin }
}

/// The lowest point of the cubic through two points and their slopes, kept within bounds; the
/// middle of the bounds if it has none.
fn cubic(a: &Point, b: &Point, least: f64, most: f64) -> f64 {
    let (a, b) = if a.t <= b.t { (a, b) } else { (b, a) };
    let d1 = a.slope + b.slope - 3.0 * (a.f - b.f) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if square.is_nan() || square < 0.0 {
        return (least + most) / 2.0;
    }
    let d2 = square.sqrt();
    let lowest = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2));
    lowest.max(least).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn along(f: impl Fn(f64) -> (f64, f64)) -> impl FnMut(f64) -> Result<Point> {
        move |t| {
            let (f, slope) = f(t);
            Ok(Point { t, f, slope, grad: Tensor::from(0.0f32) })
        }
    }

    #[test]
    fn conditions_hold_from_short_and_long_first_steps() {
        // A flat valley far away, a quartic, and one that oscillates.
        let curves: [fn(f64) -> (f64, f64); 3] = [
            |t| ((t - 30.0).powi(2), 2.0 * (t - 30.0)),
            |t| ((t - 1.0).powi(4) - t, 4.0 * (t - 1.0).powi(3) - 1.0),
            |t| (-t + (3.0 * t).sin() * 0.9 + t * t / 50.0, -1.0 + 2.7 * (3.0 * t).cos() + t / 25.0),
        ];
        for (k, curve) in curves.into_iter().enumerate() {
            for first in [1e-3, 0.1, 1.0, 50.0, 1000.0] {
                let mut at = along(curve);
                let start = at(0.0).unwrap();
                if start.slope >= 0.0 {
                    continue;
                }
                let (p, tries) = search(start.clone(), first, 1e-9, 25, at).unwrap();
                let what = format!("curve {k} from {first}: {} after {tries}", p.t);
                assert!(p.f <= start.f + FALL * p.t * start.slope, "{what}");
                assert!(p.slope.abs() <= -FLATNESS * start.slope, "{what}");
                assert!(tries <= 26, "{what}");
            }
        }
    }
}
