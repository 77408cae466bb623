//! A strict double of the CUDA driver library.
//!
//! Programs load it under the name `libcuda.so.1`, unmodified; it is never linked into one. It keeps the protocol rules of
//! [`driver_rules`], knows which memory lives, lets time pass virtually and exactly, and runs the real kernels through the
//! CPU executor. It says so: it exports `rungwise_double_version`, and whoever measures on it must ask for that.
//!
//! It is never kinder than a driver where it knows better, and it says where it does not: an unknown handle ends the
//! process, as it would on a real driver; work that nobody waited for is not there; fresh memory is poisoned; a call that
//! it does not model is a violation. [`configuration`] lists what a test can plant.
//!
//! The same file under the name `libnvidia-ml.so.1` is a double of NVML, see `nvml.rs`; as `libcublasLt.so.12`
//! one of cuBLASLt, see `blaslt.rs`.
//!
//! GPU specification section 3(b).

mod api;
mod blaslt;
mod capture;
mod claim;
pub mod configuration;
mod disturbance;
mod driver;
#[path = "../../../calibrate/src/driver_rules.rs"]
pub mod driver_rules;
mod execute;
mod graph;
mod handles;
mod limits;
mod mapping;
mod memory;
mod modules;
mod nvml;
mod operation;
mod ptx;
pub mod report;
mod status;
mod thread;
mod time;
mod timeline;
mod wild_access;
