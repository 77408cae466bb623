//! One module a probe: what is timed on a device, and what comes out of it.

pub mod result;
