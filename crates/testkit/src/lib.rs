//! What the tests of several crates share: recorded values and gradients of other systems with
//! the adapters that call our ops with their arguments, random graphs, free ports, and what
//! counts allocations.

pub mod allocations;
pub mod golden;
pub mod ports;
pub mod random;

pub use ports::free_ports;
pub use random::random_graph;
