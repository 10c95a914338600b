//! The algorithms, each a function that makes its data, runs on the store and reports.

pub mod factors;
pub mod forest;
pub mod kmeans;
pub mod lasso;
pub mod logistic;
pub mod mixture;
pub mod regret;
pub mod topics;
