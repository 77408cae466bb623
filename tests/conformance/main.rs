//! Conformance with the real engines: every golden vector, line by line.
fn main() {}
