//! Data sets, loader and run records.
