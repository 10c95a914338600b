//! talweg-testkit
