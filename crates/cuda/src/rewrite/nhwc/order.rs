//! The order in which a value's elements lie in memory, where that is another permutation of the parts of its dimensions.

use ir::Shape;
use smallvec::SmallVec;

/// A part of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Factor {
    size: usize,
    dim: usize,
}

/// The factors of a value's dimensions, and how they lie in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Row-major; each dimension has at least one.
    factors: SmallVec<[Factor; 6]>,
    /// Which factor each dimension in memory is.
    memory: SmallVec<[usize; 6]>,
}

impl Order {
    /// Dimensions of `shape` that lie in the order of `axes`.
    pub fn permuted(shape: &Shape, axes: &[i64]) -> Order {
        let factors = shape.iter().enumerate().map(|(dim, &size)| Factor { size, dim }).collect();
        Order { factors, memory: axes.iter().map(|&a| a as usize).collect() }
    }

    /// The sizes of the factors, row-major.
    pub fn factors(&self) -> Vec<i64> {
        self.factors.iter().map(|f| f.size as i64).collect()
    }
    /// The sizes in memory.
    pub fn stored(&self) -> Vec<i64> {
        self.memory.iter().map(|&i| self.factors[i].size as i64).collect()
    }
    /// The permutation from row-major factors to memory.
    pub fn to_memory(&self) -> Vec<i64> {
        self.memory.iter().map(|&i| i as i64).collect()
    }
    /// The permutation from memory to row-major factors.
    pub fn to_row_major(&self) -> Vec<i64> {
        (0..self.factors.len()).map(|i| self.place(i) as i64).collect()
    }
    /// True if the elements lie row-major.
    pub fn is_row_major(&self) -> bool {
        self.memory.iter().filter(|&&i| self.factors[i].size != 1).is_sorted()
    }
    /// The number of dimensions in memory.
    pub fn rank(&self) -> usize {
        self.memory.len()
    }
    /// The dimension in memory that a whole dimension of the value is.
    pub fn axis(&self, dim: usize) -> Option<usize> {
        let mut own = (0..self.factors.len()).filter(|&i| self.factors[i].dim == dim);
        match (own.next(), own.next()) {
            (Some(i), None) => Some(self.place(i)),
            _ => None,
        }
    }
    /// The dimensions in memory that make up these dimensions of the value.
    pub fn axes(&self, dims: &[usize]) -> Vec<usize> {
        (0..self.rank()).filter(|&k| dims.contains(&self.factors[self.memory[k]].dim)).collect()
    }

    /// The order with other sizes in memory.
    pub fn resized(&self, stored: &[usize]) -> Order {
        let mut order = self.clone();
        for (k, &i) in self.memory.iter().enumerate() {
            order.factors[i].size = stored[k];
        }
        order
    }

    /// The order of a value that is broadcast to this one, of the same rank.
    pub fn shrunk(&self, shape: &Shape) -> Option<Order> {
        let whole = |dim: usize| self.factors.iter().filter(|f| f.dim == dim).map(|f| f.size).product::<usize>();
        let is_last = self.factors.last().map_or(0, |f| f.dim + 1) == shape.rank();
        let fits = is_last && (0..shape.rank()).all(|d| shape[d] == 1 || shape[d] == whole(d));
        let mut order = self.clone();
        order.factors.iter_mut().filter(|f| fits && shape[f.dim] == 1).for_each(|f| f.size = 1);
        fits.then_some(order)
    }

    /// The order of the same elements as a value of another shape; `None` where sizes do not divide.
    pub fn reshaped(&self, shape: &Shape) -> Option<Order> {
        let mut parts: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new(); self.factors.len()];
        let mut factors: SmallVec<[Factor; 6]> = SmallVec::new();
        let mut last = 0;
        let (mut dim, mut rest, mut is_begun) = (0, shape.first().copied().unwrap_or(1), false);
        for i in (0..self.factors.len()).filter(|&i| self.factors[i].size != 1) {
            let mut left = self.factors[i].size;
            while left > 1 {
                while rest == 1 {
                    if !is_begun {
                        parts[last].push(factors.len());
                        factors.push(Factor { size: 1, dim });
                    }
                    dim += 1;
                    (rest, is_begun) = (*shape.get(dim)?, false);
                }
                let size = left.min(rest);
                if size == 0 || !left.is_multiple_of(size) || !rest.is_multiple_of(size) {
                    return None;
                }
                last = i;
                parts[i].push(factors.len());
                factors.push(Factor { size, dim });
                (left, rest, is_begun) = (left / size, rest / size, true);
            }
        }
        for d in if is_begun { dim + 1 } else { dim }..shape.rank() {
            parts[last].push(factors.len());
            factors.push(Factor { size: 1, dim: d });
        }
        let memory = self.memory.iter().flat_map(|&i| parts[i].iter().copied()).collect();
        Some(Order { factors, memory }.joined())
    }

    /// The order after a broadcast to `shape`; new dimensions come first.
    pub fn broadcast(&self, shape: &Shape) -> Order {
        let new = shape.rank() - self.factors.last().map_or(0, |f| f.dim + 1);
        let mut factors: SmallVec<[Factor; 6]> = (0..new).map(|dim| Factor { size: shape[dim], dim }).collect();
        for &Factor { size, dim } in &self.factors {
            let is_alone = self.factors.iter().filter(|f| f.dim == dim).count() == 1;
            let dim = dim + new;
            factors.push(Factor { size: if is_alone && size == 1 { shape[dim] } else { size }, dim });
        }
        let memory = (0..new).chain(self.memory.iter().map(|&i| i + new)).collect();
        Order { factors, memory }
    }

    /// Where a factor lies in memory.
    fn place(&self, i: usize) -> usize {
        self.memory.iter().position(|&m| m == i).unwrap_or(0)
    }

    /// The same order with as few factors as possible.
    pub fn joined(mut self) -> Order {
        loop {
            let same = |i: &usize| self.factors[*i].dim == self.factors[*i + 1].dim;
            let joins = |i: &usize| {
                let [a, b] = [*i, *i + 1].map(|i| self.factors[i].size);
                a == 1 || b == 1 || self.place(*i) + 1 == self.place(*i + 1)
            };
            let Some(i) = (0..self.factors.len().saturating_sub(1)).find(|i| same(i) && joins(i)) else { return self };
            // A factor of one element is the one that goes.
            let gone = if self.factors[i].size == 1 { i } else { i + 1 };
            self.factors[i + i + 1 - gone].size *= self.factors[gone].size;
            self.factors.remove(gone);
            self.memory.retain(|m| *m != gone);
            self.memory.iter_mut().filter(|m| **m > gone).for_each(|m| *m -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NHWC: [i64; 4] = [0, 2, 3, 1];

    fn images() -> Order {
        Order::permuted(&Shape::new(&[2, 6, 4, 5]), &NHWC)
    }

    #[test]
    fn groups_of_channels_and_back() {
        let groups = images().reshaped(&Shape::new(&[2, 3, 40])).unwrap();
        assert_eq!((groups.stored(), groups.factors()), (vec![2, 20, 3, 2], vec![2, 3, 2, 20]));
        assert_eq!((groups.axes(&[2]), groups.axis(1), groups.axis(2)), (vec![1, 3], Some(2), None));
        assert_eq!(groups.reshaped(&Shape::new(&[2, 6, 4, 5])), Some(images()));
        assert_eq!(images().reshaped(&Shape::new(&[2, 5, 24])), None);
    }

    #[test]
    fn pixels_are_repeated() {
        let apart = images().reshaped(&Shape::new(&[2, 6, 4, 1, 5, 1])).unwrap();
        assert_eq!(apart.stored(), [2, 4, 1, 5, 1, 6]);
        let wide = apart.broadcast(&Shape::new(&[2, 6, 4, 2, 5, 2]));
        assert_eq!(wide.stored(), [2, 4, 2, 5, 2, 6]);
        let joined = wide.reshaped(&Shape::new(&[2, 6, 8, 10])).unwrap();
        assert_eq!(joined, Order::permuted(&Shape::new(&[2, 6, 8, 10]), &NHWC));
    }

    #[test]
    fn sums_over_pixels_are_row_major() {
        let sums = images().resized(&[2, 1, 1, 6]);
        assert!(sums.is_row_major() && !images().is_row_major());
        assert_eq!(sums.to_row_major(), [0, 3, 1, 2]);
        // Pixels that become one dimension stay one dimension.
        let flat = images().reshaped(&Shape::new(&[2, 6, 20])).unwrap();
        assert_eq!((flat.stored(), flat.to_memory()), (vec![2, 20, 6], vec![0, 2, 1]));
    }
}
