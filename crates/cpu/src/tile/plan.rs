//! How a loop is cut into tiles and tasks: by the sizes and the work alone, never by the number of
//! threads, so that results do not depend on it. What a reduction adds up together is decided by the sizes alone, so that
//! it does not depend on what else the loop computes either.

use super::access::{Access, Window};
use super::combine::{POINTS, ROWS};
use passes::{Along, Loop, Step};

/// Elements a tile should have: a few registers of them fit the first-level cache.
const TILE: usize = POINTS;
/// Height and width of tiles where an operand is transposed.
const SQUARE: (usize, usize) = (32, 64);
/// Longest row that is reduced inside a tile.
pub const ROW_MAX: usize = 32768;
/// Work of a task, in simple operations on one element.
const TASK_WORK: usize = 64 * 1024;
/// Points of a task that leaves partial results.
const PARTIAL_POINTS: usize = 32 * 1024;
/// Loops of fewer points leave no partial results.
const WHOLE_POINTS: usize = 48 * 1024;
/// The widest tile of a reduction over rows that computes what it reduces.
const COLUMNS_MAX: usize = 512;
/// Work of reading or writing an element of a transposed operand.
const TRANSPOSED_WORK: usize = 6;
/// Loops with less work than this run on the calling thread: waking another costs more.
const INLINE_WORK: usize = 96 * 1024;
/// The shortest row that is a tile of its own where that saves copies of rows.
const ROW_MIN: usize = 192;
/// Steps that run once more for each row cost less than one copy of a row.
const ROW_STEPS: usize = 4;
/// The most partial results along the rows that a reduction over them keeps.
const PARTIALS_MAX: usize = 64;

/// The cut of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Rows of the space.
    pub rows: usize,
    /// Points a row has.
    pub columns: usize,
    /// Rows of a tile.
    pub h: usize,
    /// Columns of a tile.
    pub w: usize,
    /// Rows of a task.
    pub task_rows: usize,
    /// Columns of a task.
    pub task_columns: usize,
    /// Tasks one above the other.
    pub down: usize,
    /// Tasks side by side.
    pub across: usize,
    /// All the work, in simple operations.
    pub work: usize,
}

/// The work a step does at each point, in simple operations.
fn work(step: &Step, graph: &ir::Graph) -> usize {
    let Step::Scalar { node, row: false, .. } = step else { return 1 };
    graph.nodes[*node as usize].op.scalar().map_or(1, |s| s.cost.work())
}

impl Plan {
    /// The cut of a loop whose loads and stores are `accesses`.
    pub fn new(l: &Loop, graph: &ir::Graph, accesses: &[Access]) -> Plan {
        let (rows, columns) = (l.rows(), l.columns());
        let is_reduced = |s: &Step| matches!(s, Step::Reduce { along: Along::Row, after: false, .. });
        let whole_rows = l.steps.iter().any(is_reduced);
        let is_transposed = accesses.iter().any(Access::is_transposed);
        let is_loaded = l.steps.iter().all(|s| !matches!(s, Step::Scalar { .. }));
        let (mut h, mut w) = if columns <= TILE { (TILE / columns.max(1), columns) } else { (1, TILE) };
        if is_transposed && !whole_rows && columns > SQUARE.1 {
            (h, w) = SQUARE;
        } else if is_transposed {
            h = h.max(SQUARE.0.min(ROW_MAX * 2 / columns.max(1)));
        }
        // A reduction over rows wants tasks that are high, so that there are few partial results,
        // and tiles of some rows, which it adds up before it touches them.
        let by_column = l.steps.iter().any(|s| matches!(s, Step::Reduce { along: Along::Column, after: true, .. }));
        if by_column {
            // More where rows are reduced as they lie in memory, without a tile.
            let is_plain = is_loaded && accesses.iter().all(|a| a.row_distance().is_some());
            h = h.max(if is_plain { 2 * ROWS } else { ROWS }) / ROWS * ROWS;
            w = if is_plain { w } else { w.min(COLUMNS_MAX) };
        }
        // A reduction to one number of what lies in memory needs no room in the cache.
        let is_total = l.steps.iter().any(|s| matches!(s, Step::Reduce { along: Along::All, after: true, .. }));
        if is_total && is_loaded && columns > TILE && accesses.iter().all(|a| a.is_dense(1, columns, columns)) {
            w = if accesses.iter().all(|a| a.size >= 4) { 8 * TILE } else { 2 * TILE };
        }
        if whole_rows {
            w = columns;
        }
        if columns >= ROW_MIN
            && !is_transposed
            && !by_column
            && !is_total
            && Plan::is_better_by_row(l, accesses, (h, w))
        {
            h = 1;
        }
        let h = h.clamp(1, rows.max(1));
        let w = w.clamp(1, columns.max(1));

        // Transposed elements come from as many cache lines.
        let walk = if is_transposed { TRANSPOSED_WORK } else { 0 };
        let per_point: usize = walk + l.steps.iter().map(|s| work(s, graph)).sum::<usize>();
        let total = per_point.saturating_mul(rows).saturating_mul(columns);
        let has_partials = l.steps.iter().any(|s| matches!(s, Step::Reduce { after: true, .. }));
        let (task_rows, task_columns) = if has_partials {
            Plan::partial_task((rows, columns), (h, w), by_column)
        } else {
            let (row_tiles, column_tiles) = (rows.div_ceil(h), columns.div_ceil(w));
            let of_task = (TASK_WORK / (per_point * h * w).max(1)).max(1);
            let tiles = if total < INLINE_WORK { row_tiles * column_tiles } else { of_task };
            if tiles >= column_tiles {
                ((tiles / column_tiles).min(row_tiles) * h, column_tiles * w)
            } else {
                (h, tiles * w)
            }
        };
        let (task_rows, task_columns) = (task_rows.clamp(1, rows.max(1)), task_columns.clamp(1, columns.max(1)));
        Plan {
            rows,
            columns,
            h,
            w,
            task_rows,
            task_columns,
            down: rows.div_ceil(task_rows),
            across: columns.div_ceil(task_columns),
            work: total,
        }
    }

    /// Rows and columns of a task that leaves partial results. Where tasks lie side by side, that changes no sum over rows.
    fn partial_task((rows, columns): (usize, usize), (h, w): (usize, usize), by_column: bool) -> (usize, usize) {
        if rows.saturating_mul(columns) <= WHOLE_POINTS {
            (rows, columns)
        } else if by_column {
            let high = PARTIAL_POINTS / columns.min(COLUMNS_MAX);
            let high = high.max(rows.div_ceil(PARTIALS_MAX)).next_multiple_of(ROWS).min(rows);
            let tiles = (PARTIAL_POINTS / (h * w)).max(1);
            (high, (tiles / high.div_ceil(h)).max(1) * w)
        } else if columns <= PARTIAL_POINTS {
            let together = (TILE / columns).max(1);
            (PARTIAL_POINTS / columns / together * together, columns)
        } else {
            (h, PARTIAL_POINTS.max(w))
        }
    }

    /// Whether tiles of one row pay: rows of parts of wider tensors are then used where they lie, and not copied.
    fn is_better_by_row(l: &Loop, accesses: &[Access], (h, w): (usize, usize)) -> bool {
        let is_computed = l.steps.iter().any(|s| matches!(s, Step::Scalar { .. }));
        let columns = l.columns();
        let is_copied = |a: &&Access| a.is_dense(1, w, columns) && !a.is_dense(h, w, columns);
        is_computed && ROW_STEPS * accesses.iter().filter(is_copied).count() >= l.steps.len()
    }

    /// The cut of a loop that is fed whole rows.
    pub fn for_rows(l: &Loop) -> Plan {
        let (rows, columns) = (l.rows(), l.columns());
        let (h, w) = ((TILE / columns.max(1)).clamp(1, rows.max(1)), columns.clamp(1, TILE));
        let work = l.steps.len() * rows * columns;
        Plan { rows, columns, h, w, task_rows: rows, task_columns: columns, down: 1, across: 1, work }
    }

    /// How many tasks.
    pub fn tasks(&self) -> usize {
        self.down * self.across
    }
    /// The part of the space a task works on.
    pub fn task(&self, i: usize) -> Window {
        let (d, a) = (i / self.across, i % self.across);
        let (r, c) = (d * self.task_rows, a * self.task_columns);
        Window { r, h: self.task_rows.min(self.rows - r), c, w: self.task_columns.min(self.columns - c) }
    }
}
