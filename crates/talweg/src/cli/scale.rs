//! `talweg scale`: how the time and memory of a training step grow with batch, width, depth and
//! threads. Each point is a separate process, so that its memory is its own.

use super::Program;
use super::plot::{self, Curve, Panel};
use crate::{Error, Result};
use bench::Size;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Numbers of threads, a curve each.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Writes a plot.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The transformer that one property is varied of at a time.
const BASE: Size = Size { batch: 8, width: 256, layers: 2, context: 128 };

/// A varied property, its values, and a model with one of them.
struct Sweep {
    name: &'static str,
    values: &'static [usize],
    size: fn(usize) -> Size,
}

const SWEEPS: [Sweep; 3] = [
    Sweep { name: "batch", values: &[1, 2, 4, 8, 16, 32], size: |batch| Size { batch, ..BASE } },
    Sweep { name: "width", values: &[64, 128, 256, 512], size: |width| Size { width, ..BASE } },
    Sweep { name: "depth", values: &[1, 2, 4, 8], size: |layers| Size { layers, ..BASE } },
];

/// One measured point.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    ms: f64,
    rss_mb: f64,
    planned_mb: f64,
}

/// Measures a training step in a child process and prints its line.
fn measure(program: &Program, size: Size, threads: usize, sweep: &str, x: usize) -> Result<Point> {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let out = Command::new(&program.own[0])
        .args(&program.own[1..])
        .args(["bench", &size.to_string()])
        .env("BENCH_THREADS", threads.to_string())
        .env("BENCH_REPEATS", setting("BENCH_REPEATS", "3"))
        .env("BENCH_MIN_S", setting("BENCH_MIN_S", "0.1"))
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let mut line: serde_json::Value =
        serde_json::from_str(text.trim()).map_err(|e| Error::value(format!("{size}: {e} in {text:?}")))?;
    let number = |key: &str| line[key].as_f64().ok_or_else(|| Error::value(format!("{size}: no {key} in {text:?}")));
    let point = Point { x: x as f64, ms: number("ms")?, rss_mb: number("rss_mb")?, planned_mb: number("planned_mb")? };
    line["threads"] = threads.into();
    line["varied"] = sweep.into();
    line["value"] = x.into();
    println!("{line}");
    Ok(point)
}

/// The exponent of the power that fits the last points: what growth tends to.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let [.., a, b] = points else { return None };
    Some((b.1 / a.1).ln() / (b.0 / a.0).ln())
}

fn panel(title: String, unit: &'static str, curves: Vec<Curve>) -> Panel {
    Panel { title, unit, curves }
}

/// Measures everything, a JSON line each, and draws.
pub fn run(o: &Options, program: &Program) -> Result<()> {
    if o.threads.is_empty() || o.threads.contains(&0) {
        return Err(Error::value("--threads takes numbers from 1 on".to_string()));
    }
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    let curve = |name: String, points: &[Point], y: fn(&Point) -> f64, is_dashed: bool| Curve {
        name,
        points: points.iter().map(|p| (p.x, y(p))).collect(),
        is_dashed,
    };
    for s in &SWEEPS {
        let (mut ms, mut mb) = (Vec::new(), Vec::new());
        for &t in &o.threads {
            let points: Vec<Point> =
                s.values.iter().map(|&x| measure(program, (s.size)(x), t, s.name, x)).collect::<Result<_>>()?;
            ms.push(curve(plural(t), &points, |p| p.ms, false));
            if t == o.threads[o.threads.len() - 1] {
                mb.push(curve("resident".into(), &points, |p| p.rss_mb, false));
                mb.push(curve("planned".into(), &points, |p| p.planned_mb, true));
            }
        }
        let grows =
            |c: &[Curve]| c.last().and_then(|c| exponent(&c.points)).map_or(String::new(), |e| format!(" ^ {e:.2}"));
        times.push(panel(format!("time ~ {}{}", s.name, grows(&ms)), "ms", ms));
        memory.push(panel(format!("memory ~ {}{}", s.name, grows(&mb[1..])), "MiB", mb));
    }
    // Threads: a larger model, which has enough to do for many.
    let size = Size { width: 512, ..BASE };
    let points: Vec<Point> =
        o.threads.iter().map(|&t| measure(program, size, t, "threads", t)).collect::<Result<_>>()?;
    times.push(panel(
        "time ~ threads, width 512".into(),
        "ms",
        vec![curve("measured".into(), &points, |p| p.ms, false)],
    ));
    let first = points[0];
    let ideal = points.iter().map(|p| (p.x, first.ms * first.x / p.x)).collect();
    times[3].curves.push(Curve { name: "ideal".into(), points: ideal, is_dashed: true });
    memory.push(panel(
        "memory ~ threads".into(),
        "MiB",
        vec![
            curve("resident".into(), &points, |p| p.rss_mb, false),
            curve("planned".into(), &points, |p| p.planned_mb, true),
        ],
    ));
    if let Some(path) = &o.svg {
        std::fs::write(path, plot::to_svg(&[times, memory]))
            .map_err(|e| Error::value(format!("{}: {e}", path.display())))?;
    }
    Ok(())
}

fn plural(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn a_square_has_exponent_two() {
        let e = exponent(&[(1.0, 5.0), (2.0, 12.0), (4.0, 48.0)]).unwrap();
        assert!((e - 2.0).abs() < 1e-12);
        assert_eq!(exponent(&[(1.0, 5.0)]), None);
    }
}
