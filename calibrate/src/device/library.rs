//! The driver library: is it there, is it new enough, is it complete, is it the tests' double.

use std::sync::OnceLock;

use cudarc::driver::sys;

use super::clock::HostClock;
use super::error::DeviceError;
use super::named_status::{self, NamedStatus};
use super::nodes::Nodes;
use super::status::{Status, code};
use super::symbols::{Functions, Start, Symbol, is_exported, symbols};
use super::version::{FLOOR, Version};

/// The driver, loaded and initialised.
#[derive(Debug)]
pub struct Library {
    pub(super) functions: Functions,
    version: Version,
    missing: Vec<Symbol>,
    double: Option<Double>,
}

/// The tests' double of the driver, which says that it is one.
#[derive(Clone, Copy, Debug)]
struct Double {
    version: u32,
    host_ns: Option<unsafe extern "C" fn() -> u64>,
}

impl Library {
    /// Loads and initialises the driver; later calls answer what the first did.
    ///
    /// # Errors
    /// There is no driver, no device, no permission, or the driver is too old or incomplete.
    pub fn open() -> Result<&'static Self, DeviceError> {
        static LIBRARY: OnceLock<Result<Library, DeviceError>> = OnceLock::new();
        let library = LIBRARY.get_or_init(Self::load).as_ref().map_err(Clone::clone)?;
        named_status::take_names_from(&library.functions);
        Ok(library)
    }

    fn load() -> Result<Self, DeviceError> {
        // SAFETY: loading a driver library runs its initialisers, which is what asking for a GPU means.
        if !unsafe { sys::is_culib_present() } {
            return Err(DeviceError::NoDriver { nodes_are_there: Nodes::look() != Nodes::Absent });
        }
        // SAFETY: as above; it cannot panic, for the library is there.
        let library = unsafe { sys::culib() };
        let missing = |names| DeviceError::MissingSymbols { names };
        let version = start(&Start::resolve(library).map_err(missing)?)?;
        if version < FLOOR {
            return Err(DeviceError::TooOld { found: version, floor: FLOOR });
        }
        let functions = Functions::resolve(library).map_err(missing)?;
        let missing = symbols().filter(|symbol| !is_exported(library, symbol.name)).copied().collect();
        Ok(Self { functions, version, missing, double: Double::find(library) })
    }

    /// The CUDA version that the driver supports.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The functions that this driver lacks, all of them dispensable, each with what is lost.
    pub fn missing(&self) -> &[Symbol] {
        &self.missing
    }

    /// Version of the tests' double, if that is what answers: nothing it says is a measurement.
    pub fn double_version(&self) -> Option<u32> {
        self.double.map(|double| double.version)
    }

    /// The clock that host times are read from: the machine's, or the double's virtual one.
    pub fn host_clock(&self) -> HostClock {
        self.double.and_then(|double| double.host_ns).map_or_else(HostClock::machine, HostClock::virtual_ns)
    }
}

impl Double {
    fn find(library: &libloading::Library) -> Option<Self> {
        // SAFETY: only the double exports this name, with this signature.
        let version = *unsafe { library.get::<unsafe extern "C" fn() -> u32>("rungwise_double_version") }.ok()?;
        // SAFETY: as above.
        let host_ns = unsafe { library.get::<unsafe extern "C" fn() -> u64>("rungwise_double_host_ns") };
        // SAFETY: it takes nothing and answers a constant.
        Some(Self { version: unsafe { version() }, host_ns: host_ns.ok().map(|found| *found) })
    }
}

/// Calls `cuInit`, and asks for the version.
fn start(functions: &Start) -> Result<Version, DeviceError> {
    // SAFETY: 0 is the only value its flags may have.
    unsafe { functions.init(0) }.map_err(uninitialised)?;
    let mut version = 0;
    // SAFETY: the pointer is to a local that lives through the call.
    unsafe { functions.driver_version(&raw mut version) }.map_err(uninitialised)?;
    Ok(Version(version))
}

/// Why the driver does not start, as an operator would put it.
fn uninitialised(status: Status) -> DeviceError {
    let status = NamedStatus { status, name: start_name(status.code).to_owned() };
    match status.status.code {
        code::STUB_LIBRARY => DeviceError::Stub,
        code::DRIVER_MISMATCH | code::COMPAT_NOT_SUPPORTED => DeviceError::Mismatch { status },
        code::SYSTEM_NOT_READY => DeviceError::NotReady { status },
        other => match (Nodes::look(), other) {
            // A container without permission is told "no device" or "unknown error": the nodes say which it is.
            (Nodes::Forbidden(node), _) => DeviceError::NoPermission { node },
            (nodes, code::NO_DEVICE) => DeviceError::NoDevice {
                visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
                nodes_are_missing: matches!(nodes, Nodes::Absent | Nodes::ControlOnly),
            },
            (Nodes::Missing(node), _) => DeviceError::Init { status, missing_node: Some(node) },
            _ => DeviceError::Init { status, missing_node: None },
        },
    }
}

/// Names of what `cuInit` returns: the library's own are not looked up yet.
fn start_name(code: u32) -> &'static str {
    match code {
        code::SYSTEM_NOT_READY => "CUDA_ERROR_SYSTEM_NOT_READY",
        code::DRIVER_MISMATCH => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        code::COMPAT_NOT_SUPPORTED => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "",
    }
}
