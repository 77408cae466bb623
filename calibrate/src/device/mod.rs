//! The GPU through the CUDA driver. The only folder that names cudarc, and the only one with `unsafe`.
//!
//! From cudarc come the search for the library and the types; the functions are called through pointers of our own table
//! (`symbols.rs`), each call's status checked. A [`Session`] is one device in use; everything made in it holds its context.
#![expect(unsafe_code, reason = "the CUDA driver is a C interface")]

mod blaslt;
mod capture;
mod card;
mod clock;
mod context;
mod environment;
mod error;
mod event;
mod executable;
mod graph;
mod images;
mod interrupt;
mod launch;
mod library;
mod memory;
pub mod misuse;
mod module;
mod named_status;
mod nodes;
mod nvml;
mod nvrtc;
mod search;
mod session;
mod shown;
mod status;
mod stream;
mod symbols;
mod version;

pub use blaslt::{Blaslt, BlasltError, MatmulWorkspace};
pub use capture::Capture;
pub use card::{Attribute, Card};
pub use clock::HostClock;
pub(crate) use environment::{load_modules_eagerly, load_modules_lazily};
pub use error::DeviceError;
pub use event::Event;
pub use executable::Executable;
pub use graph::Graph;
pub use images::Images;
pub(crate) use interrupt::Interrupts;
pub use library::Library;
pub use memory::{Arena, MappedWord, try_out};
pub use module::{Image, Usage};
pub use named_status::NamedStatus;
pub use nvml::{Nvml, SYMBOLS as NVML_SYMBOLS};
pub use nvrtc::{Nvrtc, NvrtcError};
pub use search::Tried;
pub use session::{Scratch, Session};
pub use status::Status;
pub use symbols::{Symbol, symbols};
pub use version::Version;
