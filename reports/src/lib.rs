//! Records and writers.
