//! The cost profile of one machine.
