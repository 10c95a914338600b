//! The strokes of the digits, in several hands.
//!
//! A glyph is a path in a small part of SVG's path language: `M x y` lifts the
//! pen and moves, `L x y` draws a line, `Q` a quadratic and `C` a cubic curve.
//! The box is the unit square with y downwards; curves may leave it a little.

/// `GLYPHS[digit]` lists the hands in which the digit is written.
const GLYPHS: [&[&str]; 10] = [
    &[
        "M.5 0 C.15 0 .15 1 .5 1 C.85 1 .85 0 .5 0",
        "M.6 0 C.2 .05 .1 .95 .42 1 C.8 1 .95 .05 .6 0",
        "M.45 .05 C.1 .15 .1 .9 .45 1 C.9 1 .95 .1 .55 .02 C.5 0 .4 .02 .35 .1",
        "M.5 .05 C0 .05 0 .95 .5 .95 C1 .95 1 .05 .5 .05",
    ],
    &[
        "M.5 0 L.5 1",
        "M.3 .2 L.52 0 L.52 1",
        "M.3 .22 L.52 0 L.52 1 M.3 1 L.74 1",
        "M.62 0 L.4 1",
        "M.25 .3 Q.45 .2 .55 0 L.5 1",
    ],
    &[
        "M.2 .25 C.2 -.05 .8 -.05 .8 .27 C.8 .5 .35 .75 .2 1 L.82 1",
        "M.2 .2 C.35 -.1 .85 0 .75 .35 C.68 .6 .4 .85 .25 .95 C.1 1.02 .15 .78 .35 .88 C.5 .97 .7 1.02 .85 .9",
        "M.2 .1 L.6 0 L.8 .2 L.75 .4 L.2 1 L.85 .97",
        "M.18 .3 C.2 0 .75 -.05 .78 .25 C.8 .5 .5 .6 .18 1 Q.5 .88 .85 1",
    ],
    &[
        "M.2 .1 C.5 -.1 .85 .05 .75 .3 C.7 .45 .5 .47 .42 .47 C.65 .45 .88 .6 .8 .8 C.7 1.05 .3 1.05 .17 .88",
        "M.2 0 L.78 0 L.45 .4 C.75 .38 .88 .6 .8 .8 C.7 1.05 .3 1.05 .17 .88",
        "M.25 0 C.95 0 .85 .48 .4 .48 C1 .5 .95 1 .2 1",
        "M.22 .12 C.4 -.1 .8 .02 .72 .28 C.66 .46 .42 .5 .38 .45 C.4 .38 .8 .5 .78 .75 C.75 1.05 .3 1.02 .2 .85",
    ],
    &[
        "M.25 0 L.2 .55 L.8 .55 M.68 0 L.68 1",
        "M.65 1 L.65 0 L.12 .68 L.88 .68",
        "M.25 .05 C.15 .4 .2 .58 .45 .55 Q.6 .55 .75 .5 M.75 0 Q.68 .5 .68 1",
        "M.7 0 L.15 .62 L.85 .6 M.6 .35 L.56 1",
    ],
    &[
        "M.78 0 L.28 0 L.24 .45 C.5 .3 .85 .42 .8 .72 C.75 1.05 .3 1.05 .18 .88",
        "M.3 0 L.25 .42 C.6 .32 .85 .5 .8 .72 C.74 1.02 .35 1.02 .18 .9 M.3 .02 L.82 0",
        "M.8 .02 Q.5 .05 .3 .05 Q.28 .25 .25 .4 C.7 .4 .9 .55 .75 .8 C.62 1 .35 1 .2 .92",
        "M.75 0 L.3 .02 L.28 .42 L.6 .42 L.8 .6 L.75 .85 L.5 1 L.2 .95",
    ],
    &[
        "M.7 .02 C.35 .12 .15 .5 .2 .75 C.25 1.05 .78 1.05 .8 .72 C.8 .42 .35 .42 .22 .7",
        "M.65 0 L.3 .5 C.1 .85 .3 1 .5 1 C.75 1 .85 .75 .72 .6 C.6 .45 .35 .5 .26 .62",
        "M.35 0 C.2 .4 .15 .7 .25 .88 C.4 1.08 .75 1 .75 .75 C.72 .52 .4 .55 .24 .75",
        "M.78 .1 C.5 -.1 .2 .2 .2 .6 C.2 1.1 .8 1.1 .8 .7 C.8 .4 .3 .4 .2 .65",
    ],
    &[
        "M.18 0 L.82 0 L.42 1",
        "M.18 .02 L.82 0 L.4 1 M.35 .5 L.75 .48",
        "M.18 .15 L.2 0 L.8 .02 Q.5 .45 .45 1",
        "M.15 .08 Q.5 -.04 .82 .04 C.7 .4 .5 .6 .42 1",
    ],
    &[
        "M.5 .47 C.15 .4 .2 0 .5 0 C.8 0 .85 .4 .5 .47 C.08 .55 .12 1 .5 1 C.88 1 .92 .55 .5 .47",
        "M.72 .12 C.55 -.08 .2 .02 .25 .25 C.3 .5 .78 .5 .78 .77 C.78 1.07 .2 1.07 .22 .77 C.24 .5 .75 .45 .75 .15",
        "M.5 0 C.2 0 .2 .46 .5 .46 C.8 .46 .8 0 .5 0 M.5 .46 C.1 .46 .1 1 .5 1 C.9 1 .9 .46 .5 .46",
        "M.65 .1 C.45 -.1 .25 .15 .4 .4 C.5 .55 .7 .7 .62 .88 C.5 1.1 .2 1 .28 .75 C.35 .55 .7 .4 .7 .18 Q.7 .1 .62 .06",
    ],
    &[
        "M.78 .3 C.75 .55 .22 .55 .2 .28 C.2 -.05 .78 -.05 .78 .3 C.78 .6 .7 .9 .35 1",
        "M.75 .25 C.7 .5 .2 .55 .22 .25 C.25 -.05 .7 -.05 .75 .2 L.72 1",
        "M.72 .1 C.5 -.08 .2 .1 .25 .35 C.3 .55 .65 .5 .75 .12 C.76 .5 .7 .8 .6 1",
        "M.78 .28 C.7 .55 .2 .5 .22 .25 C.25 -.05 .8 -.05 .78 .3 L.75 .75 C.72 1.05 .35 1.03 .25 .88",
    ],
];

/// A point of the unit square, or of the image.
pub(crate) type Point = [f32; 2];

/// One piece of a path: where it starts, and its control points.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Start, zero to two handles, end. Only the first `count` are used.
    pub(crate) points: [Point; 4],
    pub(crate) count: usize,
}

/// How many hands a digit is written in.
pub(crate) fn hands(digit: usize) -> usize {
    GLYPHS[digit].len()
}

/// The pieces of a digit in one hand, every control point moved by `place`.
///
/// Points are moved in the order in which they are written, and the end of a
/// piece is the start of the next, so that strokes stay connected.
pub(crate) fn pieces(digit: usize, hand: usize, mut place: impl FnMut(Point) -> Point) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut pen = [0.0; 2];
    let mut rest = GLYPHS[digit][hand];
    while let Some(command) = rest.chars().next() {
        let body = &rest[1..];
        let end = body.find(|c: char| c.is_ascii_uppercase()).unwrap_or(body.len());
        let mut numbers = body[..end].split_ascii_whitespace().map(number);
        let mut points = [pen; 4];
        let mut count = 1;
        while let (Some(x), Some(y)) = (numbers.next(), numbers.next()) {
            points[count] = place([x, y]);
            count += 1;
        }
        pen = points[count - 1];
        if command != 'M' {
            pieces.push(Piece { points, count });
        }
        rest = &body[end..];
    }
    pieces
}

/// Numbers of the table above; a test parses all of them.
fn number(text: &str) -> f32 {
    text.parse().unwrap_or(0.0)
}

impl Piece {
    /// The point at `t` between 0 and 1 (de Casteljau, any number of points).
    pub(crate) fn at(&self, t: f32) -> Point {
        let mut points = self.points;
        for last in (1..self.count).rev() {
            for i in 0..last {
                for axis in 0..2 {
                    points[i][axis] += (points[i + 1][axis] - points[i][axis]) * t;
                }
            }
        }
        points[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_well_formed() {
        for (digit, glyphs) in GLYPHS.iter().enumerate() {
            for (hand, path) in glyphs.iter().enumerate() {
                assert!(path.starts_with('M'), "{path}");
                for word in path.split_ascii_whitespace() {
                    let word = word.trim_start_matches(['M', 'L', 'Q', 'C']);
                    assert!(word.parse::<f32>().is_ok(), "{word:?} in {path}");
                }
                let pieces = pieces(digit, hand, |point| point);
                assert_eq!(pieces.len(), path.matches(['L', 'Q', 'C']).count(), "{path}");
                let counts = path.chars().filter_map(|c| "MLQC".find(c)).filter(|n| *n > 0);
                assert!(pieces.iter().map(|p| p.count - 1).eq(counts), "{path}");
                let inside = |p: &Point| p.iter().all(|x| (-0.2..1.2).contains(x));
                assert!(pieces.iter().all(|p| p.points.iter().all(inside)), "{path}");
            }
        }
    }

    #[test]
    fn curves_go_from_start_to_end() {
        let piece = Piece { points: [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], count: 4 };
        assert_eq!(piece.at(0.0), [0.0, 0.0]);
        assert_eq!(piece.at(1.0), [1.0, 0.0]);
        assert_eq!(piece.at(0.5), [0.5, 0.75]);
        assert_eq!(Piece { count: 2, ..piece }.at(0.5), [0.0, 0.5]);
    }
}
