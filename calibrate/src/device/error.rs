//! What can go wrong with a GPU: what happened, what was expected, and the way out.

use std::fmt;
use std::path::PathBuf;

use kernels::launch::{Kernel, Module};
use kernels::units::Bytes;
use miette::Diagnostic;

use super::named_status::{NamedStatus, named};
use super::status::{Status, code};
use super::version::Version;
use crate::exit::Exit;

/// Why a GPU could not be used.
///
/// Also a [`miette::Diagnostic`], so that a binary can print the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No driver library can be loaded.
    #[error("no CUDA driver was found: none of the names of its library (libcuda.so.1) can be loaded")]
    NoDriver {
        /// GPU device nodes are there all the same: a container that was given the nodes but not the library.
        nodes_are_there: bool,
    },
    /// The library is the link-time stub of the toolkit.
    #[error("the CUDA driver library that was found is the toolkit's stub, which is for linking only")]
    Stub,
    /// The driver works and has no device for this process.
    #[error("the CUDA driver shows no device to this process")]
    NoDevice {
        /// The value of `CUDA_VISIBLE_DEVICES`, which hides devices.
        visible_devices: Option<String>,
        /// There are no nodes of GPUs in `/dev`.
        nodes_are_missing: bool,
    },
    /// A device node may not be opened.
    #[error("this process may not open {node}", node = node.display())]
    NoPermission {
        /// The node.
        node: PathBuf,
    },
    /// The library and the kernel module are of different releases, or do not go together on this device.
    #[error("the CUDA driver library does not fit the kernel driver ({status})")]
    Mismatch {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// The driver's services are not up.
    #[error("the CUDA driver is not ready ({status})")]
    NotReady {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// `cuInit` failed in another way.
    #[error("the CUDA driver cannot be initialised ({status})")]
    Init {
        /// What it answered.
        status: NamedStatus,
        /// A device node that it cannot do without.
        missing_node: Option<PathBuf>,
    },
    /// The driver is older than what the kernels and graphs need.
    #[error("the CUDA driver supports CUDA {found}, and calibrate needs {floor} or newer")]
    TooOld {
        /// What the driver says.
        found: Version,
        /// The oldest that will do.
        floor: Version,
    },
    /// The library lacks functions that a driver of its version has.
    #[error("the CUDA driver library lacks {}", names.join(", "))]
    MissingSymbols {
        /// The functions.
        names: Vec<&'static str>,
    },
    /// The GPU is of a generation that the kernels cannot run on.
    #[error("{device} has compute capability {}.{}, and the kernels need 8.0 or higher", capability.0, capability.1)]
    TooWeak {
        /// Name of the GPU.
        device: String,
        /// Its compute capability.
        capability: (i32, i32),
    },
    /// The GPU's compute mode lets nobody compute there.
    #[error("{device} is in compute mode PROHIBITED")]
    Prohibited {
        /// Name of the GPU.
        device: String,
    },
    /// The GPU cannot be taken now.
    #[error("{device} is not available ({status})")]
    Busy {
        /// Name of the GPU.
        device: String,
        /// Its compute mode admits one process only.
        is_exclusive: bool,
        /// What the driver answered.
        status: NamedStatus,
    },
    /// MIG is on and the GPU has no instance that this process can use.
    #[error("{device} is partitioned (MIG), and no instance of it is visible")]
    NoMigInstance {
        /// Name of the GPU.
        device: String,
    },
    /// The driver gives a PCI address that is none.
    #[error("the driver says that the GPU sits at `{place}`, which is no PCI address")]
    BadAddress {
        /// What it says.
        place: String,
    },
    /// There is not that much memory.
    #[error("out of GPU memory: {asked} asked for, {free} free of {total}")]
    OutOfMemory {
        /// What was asked for.
        asked: Bytes,
        /// What was free then.
        free: Bytes,
        /// What the GPU has.
        total: Bytes,
    },
    /// The driver found no memory for what it keeps itself: a context, code, an executable graph.
    #[error("out of memory ({status})")]
    Full {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// Contexts are shared through an MPS server that does not work.
    #[error("the MPS server cannot be used ({status})")]
    Mps {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// The driver's compiler does not know the version of PTX.
    #[error("the driver does not accept the PTX of module {} ({status})", module.name())]
    UnsupportedPtx {
        /// Which module.
        module: Module,
        /// What the driver answered.
        status: NamedStatus,
        /// The CUDA version it supports.
        driver: Version,
    },
    /// The driver's compiler is not there, or is switched off.
    #[error("the driver cannot compile PTX here ({status})")]
    NoCompiler {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// A module could not be loaded.
    #[error("the driver cannot load module {} ({status}){log}", module.name())]
    Module {
        /// Which module.
        module: Module,
        /// What the driver answered.
        status: NamedStatus,
        /// What its compiler says, on lines of its own; empty if it says nothing.
        log: String,
    },
    /// A module does not hold a kernel that it should.
    #[error("module {} has no kernel {}", kernel.module().name(), kernel.symbol())]
    NoKernel {
        /// Which kernel.
        kernel: Kernel,
    },
    /// The parameters of a kernel in the module are not those of calibrate's table.
    #[error("kernel {}: parameter {index} {problem}", kernel.symbol())]
    Parameter {
        /// Which kernel.
        kernel: Kernel,
        /// Which parameter, from 0.
        index: usize,
        /// What differs.
        problem: String,
    },
    /// Arguments were packed for another kernel.
    #[error("kernel {}: {given} bytes of arguments, and its parameters take {expected}", kernel.symbol())]
    Arguments {
        /// Which kernel.
        kernel: Kernel,
        /// Bytes of its arguments.
        given: usize,
        /// Bytes of its parameters.
        expected: usize,
    },
    /// A captured graph holds more than kernels.
    #[error("the captured graph holds a node of type {node_type}: every node must be a kernel")]
    NotAKernel {
        /// The type, as in `CUgraphNodeType`.
        node_type: u32,
    },
    /// A capture ended without a graph.
    #[error("the capture ended without a graph")]
    NoGraph,
    /// A graph could not be made executable.
    #[error("the graph cannot be made executable: {reason} ({status})")]
    Instantiate {
        /// What the driver says about it.
        reason: &'static str,
        /// What it answered.
        status: NamedStatus,
    },
    /// An executable could not take over another graph.
    #[error("the executable cannot take over the graph: {reason} ({status})")]
    Update {
        /// What the driver says about it.
        reason: &'static str,
        /// What it answered.
        status: NamedStatus,
    },
    /// The context is lost: no later call can succeed.
    #[error("the GPU context is lost ({status})")]
    Lost {
        /// What the driver answered.
        status: NamedStatus,
    },
    /// The driver refused a call for another reason.
    #[error("the driver refused a call ({status})")]
    Refused {
        /// What it answered.
        status: NamedStatus,
    },
}

impl DeviceError {
    /// What to do about it.
    pub fn advice(&self) -> String {
        const WITHOUT: &str = "on a machine without a GPU use a built-in profile (`calibrate list`)";
        match self {
            Self::NoDriver { nodes_are_there: true } => {
                "the GPU's device nodes are there, the library is not: in a container, start it with the NVIDIA runtime and \
                 the driver capability `compute` (NVIDIA_DRIVER_CAPABILITIES=compute,utility); else install the driver's \
                 user libraries"
                    .into()
            }
            Self::NoDriver { nodes_are_there: false } => {
                format!("install an NVIDIA driver, or start the container with GPUs (`--gpus all`); {WITHOUT}")
            }
            Self::Stub => "take the toolkit's `stubs` folder off LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is \
                           found first"
                .into(),
            Self::NoDevice { visible_devices: Some(value), .. } => {
                format!("CUDA_VISIBLE_DEVICES is `{value}`: unset it, or name a GPU that this machine has")
            }
            Self::NoDevice { nodes_are_missing: true, .. } => {
                format!("/dev has no GPU: load the kernel driver, or start the container with GPUs (`--gpus all`); {WITHOUT}")
            }
            Self::NoDevice { .. } => format!("see whether `nvidia-smi` shows a GPU; {WITHOUT}"),
            Self::NoPermission { .. } => "give this user or container access to the node (in a container `--gpus`, else the \
                                          group that owns it)"
                .into(),
            Self::Mismatch { .. } => "reboot or reload the kernel driver after an update; in a container, let the runtime mount \
                                      the host's libcuda.so.1 rather than one of the image, and take `compat` folders off \
                                      LD_LIBRARY_PATH"
                .into(),
            Self::NotReady { .. } => "start the machine's fabric manager (nvidia-fabricmanager), then try again".into(),
            Self::Init { missing_node: Some(node), .. } => format!(
                "{} is missing: load the module nvidia-uvm (`nvidia-modprobe -u -c 0`); a container must be given the node \
                 too, as the NVIDIA runtime does",
                node.display()
            ),
            Self::Init { .. } => "see `nvidia-smi` and the kernel's log; a reboot helps after a suspend or a GPU that fell off \
                                  the bus"
                .into(),
            Self::TooOld { .. } => "update the NVIDIA driver to release 525 or newer".into(),
            Self::MissingSymbols { .. } => "check which libcuda.so.1 is loaded (LD_LIBRARY_PATH); a complete driver of release \
                                            525 or newer has them all"
                .into(),
            Self::TooWeak { .. } => "use an Ampere GPU or a newer one (`--device`)".into(),
            Self::Prohibited { .. } => "have it set to compute mode DEFAULT (`nvidia-smi -c 0`, as root), or choose another GPU \
                                        (`--device`)"
                .into(),
            Self::Busy { is_exclusive: true, .. } => "its compute mode admits one process, and another one has it: end that, or \
                                                      choose another GPU (`--device`)"
                .into(),
            Self::Busy { is_exclusive: false, .. } => "see `nvidia-smi` for what else runs there, or choose another GPU \
                                                       (`--device`)"
                .into(),
            Self::NoMigInstance { .. } => "create a compute instance, and name its UUID (`nvidia-smi -L` shows it as MIG-...)".into(),
            Self::OutOfMemory { asked, total, .. } if asked.0 > total.0 => "choose a larger GPU (`--device`)".into(),
            Self::Mps { .. } => "start it anew (nvidia-cuda-mps-control), wait for its other clients, or unset \
                                 CUDA_MPS_PIPE_DIRECTORY to do without it"
                .into(),
            Self::Full { .. } | Self::OutOfMemory { .. } => "end what else runs on this GPU (`nvidia-smi` shows it), or choose another (`--device`)".into(),
            // Every driver that is new enough takes the embedded PTX: this one came from an NVRTC that does not know the GPU.
            Self::UnsupportedPtx { driver, .. } => {
                format!(
                    "if `--nvrtc` was given, leave it out, or take an NVRTC that is no newer than the driver (CUDA {driver}); \
                     else update the driver"
                )
            }
            Self::NoCompiler { status } if status.status.code == code::JIT_COMPILATION_DISABLED => {
                "unset CUDA_DISABLE_PTX_JIT and CUDA_DISABLE_JIT, or have NVRTC make code for this GPU (`--nvrtc`)".into()
            }
            Self::NoCompiler { .. } => {
                "its libnvidia-ptxjitcompiler.so.1 is missing or of another release: in a container, let the NVIDIA runtime \
                 mount it (NVIDIA_DRIVER_CAPABILITIES=compute,utility), else install all of the driver's user libraries; or \
                 have NVRTC make code for this GPU (`--nvrtc`)"
                    .into()
            }
            Self::Module { status, .. } if status.status.code == code::NO_BINARY_FOR_GPU => {
                "the kernels were compiled for another GPU: leave `--nvrtc` out, or let it compile for this one".into()
            }
            Self::Lost { .. } => "run it again; if it happens again, report it with the output of `calibrate --self-check`".into(),
            Self::BadAddress { .. }
            | Self::Module { .. }
            | Self::NoKernel { .. }
            | Self::Parameter { .. }
            | Self::Arguments { .. }
            | Self::NotAKernel { .. }
            | Self::NoGraph
            | Self::Instantiate { .. }
            | Self::Update { .. }
            | Self::Refused { .. } => "this is a bug of calibrate or of the driver: report it with the output of `calibrate \
                                       --self-check`"
                .into(),
        }
    }

    /// How the program ends with it: no usable GPU, one that is busy now, or a failure nobody expected.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Busy { .. } | Self::Full { .. } | Self::Mps { .. } => Exit::TooNoisy,
            Self::OutOfMemory { asked, total, .. } if asked.0 <= total.0 => Exit::TooNoisy,
            Self::BadAddress { .. }
            | Self::Module { .. }
            | Self::NoKernel { .. }
            | Self::Parameter { .. }
            | Self::Arguments { .. }
            | Self::NotAKernel { .. }
            | Self::NoGraph
            | Self::Instantiate { .. }
            | Self::Update { .. }
            | Self::Lost { .. }
            | Self::Refused { .. } => Exit::Unexpected,
            _ => Exit::NoGpu,
        }
    }
}

impl Diagnostic for DeviceError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.advice()))
    }
}

impl From<Status> for DeviceError {
    fn from(status: Status) -> Self {
        let named = named(status);
        match status.code {
            _ if status.is_sticky() => Self::Lost { status: named },
            code::OUT_OF_MEMORY => Self::Full { status: named },
            code::MPS_FIRST..=code::MPS_LAST => Self::Mps { status: named },
            // `cuInit` is not the only call that can answer these.
            code::SYSTEM_NOT_READY => Self::NotReady { status: named },
            code::DRIVER_MISMATCH | code::COMPAT_NOT_SUPPORTED => Self::Mismatch { status: named },
            _ => Self::Refused { status: named },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error with its way out and its exit code, to be read in one piece.
    #[test]
    fn every_error_says_what_to_do() {
        use DeviceError as E;
        let status =
            |call, code| NamedStatus { status: Status { call, code }, name: "CUDA_ERROR_NAME: a sentence".into() };
        let device = || "NVIDIA H200".to_owned();
        let (asked, free, total) = (Bytes(3 << 30), Bytes(1 << 30), Bytes(80 << 30));
        let (kernel, module) = (Kernel::Embed, Module::Decoder);
        let errors = [
            E::NoDriver { nodes_are_there: false },
            E::NoDriver { nodes_are_there: true },
            E::Stub,
            E::NoDevice { visible_devices: Some("7".into()), nodes_are_missing: false },
            E::NoDevice { visible_devices: None, nodes_are_missing: true },
            E::NoDevice { visible_devices: None, nodes_are_missing: false },
            E::NoPermission { node: "/dev/nvidia0".into() },
            E::Mismatch { status: status("cuInit", 803) },
            E::NotReady { status: status("cuInit", 802) },
            E::Init { status: status("cuInit", 999), missing_node: None },
            E::Init { status: status("cuInit", 999), missing_node: Some("/dev/nvidia-uvm".into()) },
            E::TooOld { found: Version(11_080), floor: Version(12_000) },
            E::MissingSymbols { names: vec!["cuGraphUpload", "cuGraphLaunch"] },
            E::TooWeak { device: device(), capability: (7, 5) },
            E::Prohibited { device: device() },
            E::Busy { device: device(), is_exclusive: true, status: status("cuDevicePrimaryCtxRetain", 46) },
            E::Busy { device: device(), is_exclusive: false, status: status("cuDevicePrimaryCtxRetain", 46) },
            E::NoMigInstance { device: device() },
            E::OutOfMemory { asked, free, total },
            E::OutOfMemory { asked: Bytes(90 << 30), free, total },
            E::Full { status: status("cuGraphInstantiateWithParams", 2) },
            E::Mps { status: status("cuDevicePrimaryCtxRetain", 807) },
            E::UnsupportedPtx { module, status: status("cuModuleLoadDataEx", 222), driver: Version(12_000) },
            E::NoCompiler { status: status("cuModuleLoadDataEx", 221) },
            E::NoCompiler { status: status("cuModuleLoadDataEx", 223) },
            E::Module { module, status: status("cuModuleLoadDataEx", 209), log: String::new() },
            E::Module { module, status: status("cuModuleLoadDataEx", 218), log: "\nline 3: syntax error".into() },
            E::NoKernel { kernel },
            E::Parameter { kernel, index: 2, problem: "(ids) is missing in the module".into() },
            E::Arguments { kernel, given: 24, expected: 32 },
            E::NotAKernel { node_type: 2 },
            E::NoGraph,
            E::Instantiate { reason: "its structure is invalid", status: status("cuGraphInstantiateWithParams", 1) },
            E::Update { reason: "the topology differs", status: status("cuGraphExecUpdate_v2", 910) },
            E::Lost { status: status("cuStreamSynchronize", 700) },
            E::Refused { status: status("cuStreamCreate", 400) },
        ];
        let shown = errors.map(|error| format!("{error}\n  exit {}; {}", error.exit().code(), error.advice()));
        insta::assert_snapshot!(shown.join("\n"));
    }
}
