//! Where the boxes go: layers by longest path, order within a layer by barycenters, and places by
//! least squares. Arrows that skip layers pass through an invisible point in each of them.

/// Space between boxes of a layer.
const GAP_X: f64 = 26.0;
/// Space beside an arrow that passes.
const GAP_LINE: f64 = 14.0;
/// Space between layers.
const GAP_Y: f64 = 34.0;
/// Sweeps of ordering and of placing.
const SWEEPS: usize = 16;

/// Places of boxes (their centers) and the points of arrows from box to box.
pub(super) struct Layout {
    pub centers: Vec<(f64, f64)>,
    pub paths: Vec<Vec<(f64, f64)>>,
    pub width: f64,
    pub height: f64,
}

/// The layer of each box: as deep as its longest chain of predecessors; a box with no more arrows
/// in than out then sinks to just above its first user, which makes arrows shorter.
pub(super) fn ranks(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut users = vec![Vec::new(); count];
    let mut incoming = vec![0; count];
    for &(from, to) in edges {
        users[from].push(to);
        incoming[to] += 1;
    }
    // Edges lead from earlier boxes to later ones, so the order of boxes is that of the data.
    let mut rank = vec![0; count];
    for from in 0..count {
        for &to in &users[from] {
            rank[to] = rank[to].max(rank[from] + 1);
        }
    }
    for i in (0..count).rev() {
        let first = users[i].iter().map(|&to| rank[to] - 1).min();
        if let (Some(first), true) = (first, incoming[i] <= users[i].len()) {
            rank[i] = rank[i].max(first);
        }
    }
    rank
}

/// Boxes and the invisible points between them, in layers.
struct Layers {
    layers: Vec<Vec<usize>>,
    up: Vec<Vec<usize>>,
    down: Vec<Vec<usize>>,
    widths: Vec<f64>,
    /// How many of the points are boxes.
    boxes: usize,
    /// Place in its layer.
    order: Vec<usize>,
}

pub(super) fn layout(sizes: &[(f64, f64)], rank: &[usize], edges: &[(usize, usize)]) -> Layout {
    let depth = rank.iter().max().map_or(0, |r| r + 1);
    let mut l = Layers {
        layers: vec![Vec::new(); depth],
        up: vec![Vec::new(); sizes.len()],
        down: vec![Vec::new(); sizes.len()],
        widths: sizes.iter().map(|s| s.0).collect(),
        boxes: sizes.len(),
        order: vec![0; sizes.len()],
    };
    for (i, &r) in rank.iter().enumerate() {
        l.layers[r].push(i);
    }
    let chains: Vec<Vec<usize>> = edges.iter().map(|&(from, to)| l.chain(from, to, rank)).collect();
    l.arrange();
    let x = l.place();

    let heights: Vec<f64> = (0..depth)
        .map(|r| l.layers[r].iter().filter(|&&i| i < l.boxes).map(|&i| sizes[i].1).fold(0.0, f64::max))
        .collect();
    let mut y = Vec::with_capacity(depth);
    let mut at = 0.0;
    for h in &heights {
        y.push(at + h / 2.0);
        at += h + GAP_Y;
    }
    let point = |i: usize, r: usize| (x[i], y[r]);
    let paths = chains.iter().zip(edges).map(|(chain, &(from, to))| {
        let mut out = vec![(x[from], y[rank[from]] + sizes[from].1 / 2.0)];
        for (k, &i) in chain.iter().enumerate() {
            // A passing arrow is straight along the boxes of the layer.
            let (px, py) = point(i, rank[from] + 1 + k);
            let h = heights[rank[from] + 1 + k] / 2.0;
            out.push((px, py - h));
            out.push((px, py + h));
        }
        out.push((x[to], y[rank[to]] - sizes[to].1 / 2.0));
        out
    });
    let paths = paths.collect();
    let right = l.layers.iter().flatten().map(|&i| x[i] + l.widths[i] / 2.0).fold(0.0, f64::max);
    let centers = (0..sizes.len()).map(|i| point(i, rank[i])).collect();
    Layout { centers, paths, width: right, height: (at - GAP_Y).max(0.0) }
}

impl Layers {
    /// The invisible points between two boxes.
    fn chain(&mut self, from: usize, to: usize, rank: &[usize]) -> Vec<usize> {
        let mut out = Vec::new();
        let mut last = from;
        for r in rank[from] + 1..rank[to] {
            let i = self.widths.len();
            self.widths.push(0.0);
            self.order.push(0);
            self.up.push(vec![last]);
            self.down.push(Vec::new());
            self.down[last].push(i);
            self.layers[r].push(i);
            out.push(i);
            last = i;
        }
        self.down[last].push(to);
        self.up[to].push(last);
        out
    }

    /// Orders every layer so that few arrows cross; the best of several sweeps is kept.
    fn arrange(&mut self) {
        self.number();
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..SWEEPS {
            let depth = self.layers.len();
            for k in 0..depth {
                let r = if sweep % 2 == 0 { k } else { depth - 1 - k };
                let near = if sweep % 2 == 0 { &self.up } else { &self.down };
                let key = |i: usize| {
                    let n = &near[i];
                    if n.is_empty() {
                        return self.order[i] as f64;
                    }
                    n.iter().map(|&j| self.order[j] as f64).sum::<f64>() / n.len() as f64
                };
                let mut keyed: Vec<(f64, usize)> = self.layers[r].iter().map(|&i| (key(i), i)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[r] = keyed.into_iter().map(|(_, i)| i).collect();
                for (k, &i) in self.layers[r].iter().enumerate() {
                    self.order[i] = k;
                }
            }
            let now = self.crossings();
            if now < best.0 {
                best = (now, self.layers.clone());
            }
        }
        self.layers = best.1;
        self.number();
    }
    fn number(&mut self) {
        for layer in &self.layers {
            for (k, &i) in layer.iter().enumerate() {
                self.order[i] = k;
            }
        }
    }
    fn crossings(&self) -> usize {
        let mut total = 0;
        for layer in &self.layers {
            let ends: Vec<usize> = layer
                .iter()
                .flat_map(|&i| {
                    let mut to: Vec<usize> = self.down[i].iter().map(|&j| self.order[j]).collect();
                    to.sort_unstable();
                    to
                })
                .collect();
            total += inversions(&ends);
        }
        total
    }

    /// Space between the centers of two neighbors of a layer.
    fn gap(&self, a: usize, b: usize) -> f64 {
        let line = |i: usize| i >= self.boxes;
        let gap = if line(a) && line(b) {
            GAP_LINE
        } else if line(a) || line(b) {
            GAP_X * 0.8
        } else {
            GAP_X
        };
        (self.widths[a] + self.widths[b]) / 2.0 + gap
    }

    /// Moves boxes toward their neighbors above and below without changing the order.
    fn place(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.widths.len()];
        for layer in &self.layers {
            for w in layer.windows(2) {
                x[w[1]] = x[w[0]] + self.gap(w[0], w[1]);
            }
            let middle = layer.last().map_or(0.0, |&i| x[i]) / 2.0;
            layer.iter().for_each(|&i| x[i] -= middle);
        }
        for sweep in 0..SWEEPS + 1 {
            let depth = self.layers.len();
            for k in 0..depth {
                let r = if sweep % 2 == 0 { k } else { depth - 1 - k };
                self.settle(&mut x, r, sweep);
            }
        }
        let left = self.layers.iter().flatten().map(|&i| x[i] - self.widths[i] / 2.0).fold(f64::INFINITY, f64::min);
        x.iter_mut().for_each(|x| *x -= left);
        x
    }

    /// The places of one layer nearest to where its neighbors want them: least squares under the
    /// order and the gaps, by pooling neighbors that would overlap.
    fn settle(&self, x: &mut [f64], r: usize, sweep: usize) {
        let layer = &self.layers[r];
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        let mut offset = 0.0;
        let mut offsets = Vec::with_capacity(layer.len());
        for (k, &i) in layer.iter().enumerate() {
            if k > 0 {
                offset += self.gap(layer[k - 1], i);
            }
            offsets.push(offset);
            let mean = |n: &[usize]| n.iter().map(|&j| x[j]).sum::<f64>() / n.len() as f64;
            let wish = match (self.up[i].is_empty(), self.down[i].is_empty(), sweep % 2) {
                (true, true, _) => x[i],
                (true, false, _) => mean(&self.down[i]),
                (false, true, _) => mean(&self.up[i]),
                // Mostly the side the sweep comes from, a little of the other: it converges.
                (_, _, 0) => 0.7 * mean(&self.up[i]) + 0.3 * mean(&self.down[i]),
                (_, _, _) => 0.3 * mean(&self.up[i]) + 0.7 * mean(&self.down[i]),
            };
            // Straight long arrows matter more than a box that is a little off.
            let weight = if i >= self.boxes { 3.0 } else { 1.0 };
            blocks.push((wish - offset, weight, 1));
            while let [.., a, b] = blocks.as_slice() {
                if a.0 <= b.0 {
                    break;
                }
                let merged = ((a.0 * a.1 + b.0 * b.1) / (a.1 + b.1), a.1 + b.1, a.2 + b.2);
                blocks.pop();
                blocks.pop();
                blocks.push(merged);
            }
        }
        let mut k = 0;
        for (at, _, n) in blocks {
            for _ in 0..n {
                x[layer[k]] = at + offsets[k];
                k += 1;
            }
        }
    }
}

/// Pairs out of order, by merging.
fn inversions(list: &[usize]) -> usize {
    fn sort(list: &mut [usize], spare: &mut Vec<usize>) -> usize {
        if list.len() < 2 {
            return 0;
        }
        let (a, b) = list.split_at_mut(list.len() / 2);
        let mut count = sort(a, spare) + sort(b, spare);
        spare.clear();
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            if j == b.len() || (i < a.len() && a[i] <= b[j]) {
                spare.push(a[i]);
                i += 1;
            } else {
                count += a.len() - i;
                spare.push(b[j]);
                j += 1;
            }
        }
        list.copy_from_slice(spare);
        count
    }
    sort(&mut list.to_vec(), &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted() {
        assert_eq!(inversions(&[1, 2, 3]), 0);
        assert_eq!(inversions(&[3, 1, 2]), 2);
        assert_eq!(inversions(&[4, 3, 2, 1]), 6);
        assert_eq!(inversions(&[2, 2, 1]), 2);
    }

    #[test]
    fn boxes_of_a_layer_do_not_overlap_and_arrows_point_down() {
        // A ladder with crossing wishes.
        let edges: Vec<(usize, usize)> = (0..60).flat_map(|i| [(i, i + 3), (i, (i * 7) % 5 + i + 1)]).collect();
        let sizes: Vec<(f64, f64)> = (0..70).map(|i| (40.0 + (i % 4) as f64 * 30.0, 30.0)).collect();
        let rank = ranks(sizes.len(), &edges);
        let l = layout(&sizes, &rank, &edges);
        for i in 0..sizes.len() {
            for j in 0..i {
                if rank[i] == rank[j] {
                    let apart = (l.centers[i].0 - l.centers[j].0).abs();
                    assert!(apart >= (sizes[i].0 + sizes[j].0) / 2.0, "{i} and {j} overlap");
                }
            }
            assert!(l.centers[i].0 - sizes[i].0 / 2.0 >= -1e-9 && l.centers[i].0 <= l.width);
        }
        for p in &l.paths {
            assert!(p.windows(2).all(|w| w[0].1 <= w[1].1 + 1e-9), "{p:?}");
        }
    }

    #[test]
    fn a_crossing_that_can_be_avoided_is_avoided() {
        // 0 → 3 and 1 → 2 cross as they are numbered.
        let edges = [(0, 3), (1, 2)];
        let sizes = [(50.0, 20.0); 4];
        let l = layout(&sizes, &ranks(4, &edges), &edges);
        assert!((l.centers[0].0 < l.centers[1].0) == (l.centers[3].0 < l.centers[2].0));
    }
}
