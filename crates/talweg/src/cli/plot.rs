//! Plots as SVG: rows of panels with logarithmic axes.

use std::fmt::Write;

/// Points joined by a line.
pub struct Curve {
    /// What it is, for the legend.
    pub name: String,
    /// Positive numbers.
    pub points: Vec<(f64, f64)>,
    /// For what is not measured.
    pub is_dashed: bool,
}

/// Curves over the same axes.
pub struct Panel {
    /// What is shown.
    pub title: String,
    /// The unit of the vertical axis.
    pub unit: &'static str,
    /// At least one, with a point each.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 230.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;
const COLORS: [&str; 5] = ["#1f6fb4", "#d1662a", "#2f8f4e", "#8a4fb0", "#7a7a7a"];

/// The least and the greatest of some numbers, a little apart if they are equal.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (lo, hi) = values.fold((f64::INFINITY, 0.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if lo < hi { (lo, hi) } else { (lo / 1.5, hi * 1.5) }
}

/// 1, 2 and 5 times powers of ten from the last below two numbers to the first above them.
fn ticks(lo: f64, hi: f64) -> Vec<f64> {
    let from = lo.log10().floor() as i32;
    let to = hi.log10().ceil() as i32;
    let all: Vec<f64> = (from..=to).flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e))).collect();
    let first = all.iter().rposition(|&t| t <= lo).unwrap_or(0);
    let last = all.iter().position(|&t| t >= hi).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

fn number(x: f64) -> String {
    if x >= 1.0 { format!("{x:.0}") } else { format!("{x}") }
}

/// One panel with its corner at `(x0, y0)`.
fn draw(out: &mut String, p: &Panel, x0: f64, y0: f64) {
    let points = || p.curves.iter().flat_map(|c| &c.points);
    let ((x_lo, x_hi), (y_lo, y_hi)) = (span(points().map(|q| q.0)), span(points().map(|q| q.1)));
    let y_ticks = ticks(y_lo, y_hi);
    let (y_lo, y_hi) = (y_ticks[0], y_ticks[y_ticks.len() - 1]);
    let place = |v: f64, lo: f64, hi: f64| (v / lo).ln() / (hi / lo).ln();
    let x = |v: f64| x0 + LEFT + place(v, x_lo, x_hi) * (WIDTH - LEFT - RIGHT);
    let y = |v: f64| y0 + HEIGHT - BOTTOM - place(v, y_lo, y_hi) * (HEIGHT - TOP - BOTTOM);
    let _ = writeln!(out, r#"<text x="{:.1}" y="{:.1}" class="t">{}</text>"#, x0 + 6.0, y0 + 14.0, p.title);
    let mut xs: Vec<f64> = points().map(|q| q.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let bottom = y0 + HEIGHT - BOTTOM;
    for v in xs {
        let at = x(v);
        let _ = writeln!(
            out,
            r#"<path d="M{at:.1} {:.1}V{bottom:.1}" class="g"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            y0 + TOP,
            bottom + 14.0,
            number(v)
        );
    }
    for v in y_ticks {
        let at = y(v);
        let _ = writeln!(
            out,
            r#"<path d="M{:.1} {at:.1}H{:.1}" class="g"/><text x="{:.1}" y="{:.1}" text-anchor="end">{} {}</text>"#,
            x0 + LEFT,
            x0 + WIDTH - RIGHT,
            x0 + LEFT - 3.0,
            at + 3.0,
            number(v),
            p.unit
        );
    }
    for (i, c) in p.curves.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let line: Vec<String> = c.points.iter().map(|q| format!("{:.1},{:.1}", x(q.0), y(q.1))).collect();
        let dash = if c.is_dashed { r#" stroke-dasharray="4 3""# } else { "" };
        let _ = writeln!(out, r#"<polyline points="{}" fill="none" stroke="{color}"{dash}/>"#, line.join(" "));
        if !c.is_dashed {
            for q in &c.points {
                let _ = writeln!(out, r#"<circle cx="{:.1}" cy="{:.1}" r="2.2" fill="{color}"/>"#, x(q.0), y(q.1));
            }
        }
        let at = y0 + TOP + 10.0 + 11.0 * i as f64;
        let _ = writeln!(out, r#"<text x="{:.1}" y="{at:.1}" fill="{color}">{}</text>"#, x0 + LEFT + 6.0, c.name);
    }
}

/// The image.
pub fn to_svg(rows: &[Vec<Panel>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let (w, h) = (WIDTH * columns as f64, HEIGHT * rows.len() as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" font-family=\"sans-serif\" font-size=\"9\">\n\
         <style>.t{{font-size:11px;font-weight:bold}}.g{{stroke:#ddd}}</style>\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n"
    );
    for (r, row) in rows.iter().enumerate() {
        for (c, p) in row.iter().enumerate() {
            draw(&mut out, p, WIDTH * c as f64, HEIGHT * r as f64);
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_where_their_logarithms_are() {
        let curve = Curve { name: "a".into(), points: vec![(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)], is_dashed: false };
        let svg = to_svg(&[vec![Panel { title: "t".into(), unit: "ms", curves: vec![curve] }]]);
        // From 10 at the bottom to 50 at the top.
        assert!(svg.contains("42.0,166.0 131.0,105.7 220.0,45.4"), "{svg}");
        assert_eq!(ticks(3.0, 60.0), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }
}
