//! What the tests of several crates share: recorded values and gradients of other systems with
//! the adapters that call our ops with their arguments, and random graphs.

pub mod golden;
pub mod random;

pub use random::random_graph;
