//! What the tests of several crates share: recorded values and gradients of other systems, and
//! the adapters that call our ops with their arguments.

pub mod golden;
