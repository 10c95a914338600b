//! The SVG text.

use super::layout::{Layout, layout, ranks};
use super::{Item, Kind, Sketch, children, sketch};
use crate::Graph;
use std::fmt::Write;

/// An arrow over more layers than this becomes a mark beside its end.
const SPAN_MAX: usize = 8;
const MARGIN: f64 = 24.0;
const LINE_HEIGHT: f64 = 15.0;
/// Width of a character of the fonts below.
const CHAR: f64 = 7.3;
const CHAR_SMALL: f64 = 6.4;

/// The graph as an SVG image.
pub fn to_svg(graph: &Graph) -> String {
    let mut panels = Vec::new();
    collect(graph, "", &mut panels);
    let mut body = String::new();
    let mut kinds = Vec::new();
    let (mut width, mut y) = (620.0f64, 58.0);
    for (title, g) in &panels {
        if !title.is_empty() {
            y += 34.0;
            text(&mut body, "head", MARGIN, y - 12.0, title);
        }
        let (s, l) = arranged(g);
        kinds.extend(s.items.iter().map(|i| i.kind));
        panel(&mut body, &s, &l, MARGIN, y);
        y += l.height + MARGIN;
        width = width.max(l.width + 2.0 * MARGIN);
        if s.left_out > 0 {
            text(&mut body, "small", MARGIN, y, &format!("… and {} more nodes", s.left_out));
            y += LINE_HEIGHT;
        }
    }
    let nodes: usize = panels.iter().map(|(_, g)| g.nodes.len()).sum();
    let mut out = String::new();
    let height = y + MARGIN / 2.0;
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">"
    );
    out.push_str(STYLE);
    let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fbfbfd\"/>");
    text(&mut out, "head", MARGIN, 26.0, &format!("{nodes} nodes"));
    legend(&mut out, &kinds);
    out.push_str(&body);
    out.push_str("</svg>\n");
    out
}

const STYLE: &str = "<style>\n\
    text { font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 11px; fill: #2b303b; }\n\
    .head { font-size: 12px; font-weight: bold; }\n\
    .small { font-size: 10.5px; fill: #5b6473; }\n\
    .middle { text-anchor: middle; }\n\
    .white { fill: #ffffff; }\n\
    .arrow { fill: none; stroke: #98a1b0; stroke-width: 1.3; }\n\
    </style>\n\
    <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7.2\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
    <path d=\"M0,0.8 L8,4 L0,7.2 z\" fill=\"#98a1b0\"/></marker></defs>\n";

fn collect<'a>(g: &'a Graph, title: &str, out: &mut Vec<(String, &'a Graph)>) {
    out.push((title.to_string(), g));
    for (name, sub) in children(g) {
        collect(sub, &name, out);
    }
}

fn size(i: &Item) -> (f64, f64) {
    let chars = |s: &String| s.chars().count() as f64;
    let head = chars(&i.head) * CHAR;
    let rest = i.lines.iter().map(|l| chars(l) * CHAR_SMALL).fold(0.0, f64::max);
    match i.kind {
        Kind::Mark => (chars(&i.head) * CHAR_SMALL + 14.0, 18.0),
        _ => ((head.max(rest) + 20.0).max(64.0), LINE_HEIGHT * (1 + i.lines.len()) as f64 + 11.0),
    }
}

/// Boxes with their places; far uses are replaced by marks first.
fn arranged(g: &Graph) -> (Sketch, Layout) {
    let mut s = sketch(g);
    let plain = |s: &Sketch| s.edges.iter().map(|e| (e.0, e.1)).collect::<Vec<_>>();
    let mut rank = ranks(s.items.len(), &plain(&s));
    for k in 0..s.edges.len() {
        let (from, to, label) = s.edges[k].clone();
        if rank[to] - rank[from] > SPAN_MAX {
            let source = &s.items[from];
            let value = source.head.split(" (").next().unwrap_or("").to_string() + &label;
            s.edges[k] = (s.items.len(), to, String::new());
            let title = source.title.clone();
            s.items.push(Item { kind: Kind::Mark, head: value, lines: vec![], title });
            rank.push(rank[to] - 1);
        }
    }
    let sizes: Vec<(f64, f64)> = s.items.iter().map(size).collect();
    let l = layout(&sizes, &rank, &plain(&s));
    (s, l)
}

fn panel(out: &mut String, s: &Sketch, l: &Layout, dx: f64, dy: f64) {
    let _ = writeln!(out, "<g transform=\"translate({dx:.1},{dy:.1})\">");
    for ((_, _, label), path) in s.edges.iter().zip(&l.paths) {
        arrow(out, path, label);
    }
    for (i, item) in s.items.iter().enumerate() {
        draw(out, item, l.centers[i]);
    }
    out.push_str("</g>\n");
}

/// A smooth line down through the points.
fn arrow(out: &mut String, path: &[(f64, f64)], label: &str) {
    let Some(&(x, y)) = path.first() else { return };
    let mut d = format!("M{x:.1},{y:.1}");
    for w in path.windows(2) {
        let ((x0, y0), (x1, y1)) = (w[0], w[1]);
        if (x0 - x1).abs() < 0.5 {
            let _ = write!(d, " L{x1:.1},{y1:.1}");
        } else {
            let m = (y0 + y1) / 2.0;
            let _ = write!(d, " C{x0:.1},{m:.1} {x1:.1},{m:.1} {x1:.1},{y1:.1}");
        }
    }
    let _ = writeln!(out, "<path class=\"arrow\" d=\"{d}\" marker-end=\"url(#tip)\"/>");
    if !label.is_empty() {
        text(out, "small", x + 4.0, y + 11.0, label);
    }
}

fn draw(out: &mut String, item: &Item, (cx, cy): (f64, f64)) {
    let (w, h) = size(item);
    let (fill, border) = item.kind.colors();
    let round = match item.kind {
        Kind::Output | Kind::Mark | Kind::Input => h / 2.0,
        Kind::View => 10.0,
        _ => 4.0,
    };
    let dash = if item.kind == Kind::Mark { " stroke-dasharray=\"3 2\"" } else { "" };
    let _ = write!(out, "<g><title>{}</title>", escaped(&item.title));
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"{:.1}\" fill=\"{fill}\" stroke=\"{border}\" stroke-width=\"1.2\"{dash}/>",
        cx - w / 2.0,
        cy - h / 2.0,
        round.min(14.0)
    );
    let top = cy - h / 2.0;
    let head = match item.kind {
        Kind::Mark => "small middle",
        Kind::Output => "head middle white",
        _ => "head middle",
    };
    let first = if item.kind == Kind::Mark { 12.8 } else { 17.0 };
    text(out, head, cx, top + first, &item.head);
    for (k, line) in item.lines.iter().enumerate() {
        text(out, "small middle", cx, top + 17.0 + LINE_HEIGHT * (k + 1) as f64, line);
    }
    out.push_str("</g>\n");
}

/// The colors that occur, with their names.
fn legend(out: &mut String, kinds: &[Kind]) {
    let mut x = MARGIN + 90.0;
    for kind in Kind::ALL.into_iter().filter(|k| kinds.contains(k)) {
        let (fill, border) = kind.colors();
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"16\" width=\"12\" height=\"12\" rx=\"3\" fill=\"{fill}\" stroke=\"{border}\"/>"
        );
        text(out, "small", x + 17.0, 26.0, kind.name());
        x += 17.0 + kind.name().len() as f64 * CHAR_SMALL + 14.0;
    }
}

fn text(out: &mut String, class: &str, x: f64, y: f64, s: &str) {
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(s));
}

/// Characters that XML reserves or forbids are replaced.
fn escaped(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
