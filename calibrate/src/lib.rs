//! The cost profile of one machine: what a step, a launch, a replay and a capture cost there, and who says so.
pub mod profile;
