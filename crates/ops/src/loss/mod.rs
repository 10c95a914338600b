//! Objectives: how far a prediction is from its target.

crate::table! {}
