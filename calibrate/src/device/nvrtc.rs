//! NVRTC, NVIDIA's compiler as a library: opened at run time, to compile the kernels for exactly the device at hand.
//!
//! Names, signatures and options are those of the NVRTC documentation. The embedded PTX needs none of this.

use std::borrow::Cow;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;

use kernels::launch::Module;
use libloading::Library;
use miette::Diagnostic;

use super::module::Image;
use super::search::{Tried, Wanted, first, load};
use super::version::Version;
use crate::exit::Exit;
use crate::host::HostTree;

const WANTED: Wanted =
    Wanted { stem: "libnvrtc.so", versions: &["13", "12"], wheel: "cuda_nvrtc", variable: "RUNGWISE_NVRTC" };

/// C++17, as `kernels/cuda/compile.py` compiles the embedded texts.
const STANDARD: &str = "--std=c++17";

type Program = *mut c_void;

macro_rules! functions {
    ($($method:ident = $name:literal($($argument:ident: $type:ty),*);)*) => {
        #[derive(Debug)]
        struct Functions {
            $($method: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn resolve(library: &Library) -> Result<Self, String> {
                // SAFETY: every signature below is that of the NVRTC documentation for this name.
                unsafe { Ok(Self { $($method: *library.get($name).map_err(|_| format!("it has no {}", $name))?,)* }) }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                unsafe fn $method(&self, $($argument: $type),*) -> Result<(), Refused> {
                    // SAFETY: the caller's.
                    match unsafe { (self.$method)($($argument),*) } {
                        0 => Ok(()),
                        code => Err(Refused { call: $name, code }),
                    }
                }
            )*
        }
    };
}

functions! {
    version = "nvrtcVersion"(major: *mut c_int, minor: *mut c_int);
    architecture_count = "nvrtcGetNumSupportedArchs"(count: *mut c_int);
    architectures = "nvrtcGetSupportedArchs"(architectures: *mut c_int);
    create = "nvrtcCreateProgram"(
        program: *mut Program, source: *const c_char, name: *const c_char, headers: c_int,
        texts: *const *const c_char, names: *const *const c_char
    );
    destroy = "nvrtcDestroyProgram"(program: *mut Program);
    compile = "nvrtcCompileProgram"(program: Program, count: c_int, options: *const *const c_char);
    log_size = "nvrtcGetProgramLogSize"(program: Program, bytes: *mut usize);
    log = "nvrtcGetProgramLog"(program: Program, text: *mut c_char);
    ptx_size = "nvrtcGetPTXSize"(program: Program, bytes: *mut usize);
    ptx = "nvrtcGetPTX"(program: Program, text: *mut c_char);
    cubin_size = "nvrtcGetCUBINSize"(program: Program, bytes: *mut usize);
    cubin = "nvrtcGetCUBIN"(program: Program, bytes: *mut c_char);
}

/// A call that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    call: &'static str,
    code: c_int,
}

impl From<Refused> for NvrtcError {
    fn from(Refused { call, code }: Refused) -> Self {
        Self::Call { call, code }
    }
}

/// Why the kernels could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The library that was named cannot be used.
    #[error("this is not a usable NVRTC: {}", list(.0))]
    Named(Vec<Tried>),
    /// None was found.
    #[error("no NVRTC was found: {}", list(.0))]
    NotFound(Vec<Tried>),
    /// It knows no architecture that the device can run.
    #[error("NVRTC {}.{} compiles for nothing that compute capability {}.{} can run", version.0, version.1, capability.0, capability.1)]
    TooOld {
        /// NVRTC's version.
        version: (i32, i32),
        /// The device's compute capability.
        capability: (u32, u32),
    },
    /// The source does not compile.
    #[error("NVRTC does not compile module {}:\n{log}", module.name())]
    Compile {
        /// Which module.
        module: Module,
        /// What the compiler says.
        log: String,
    },
    /// Another call failed.
    #[error("{call} failed with code {code}")]
    Call {
        /// Which.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
}

fn list(tried: &[Tried]) -> String {
    tried.iter().map(Tried::to_string).collect::<Vec<_>>().join("; ")
}

impl NvrtcError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Named(_) => "name libnvrtc.so.12 or libnvrtc.so.13 itself, or its folder",
            Self::NotFound(_) => {
                "install it (the Python package nvidia-cuda-nvrtc, or a CUDA toolkit), name it with --nvrtc=PATH, or leave \
                 --nvrtc out: the embedded PTX needs none"
            }
            Self::TooOld { .. } => "take an NVRTC as new as the GPU, or leave --nvrtc out",
            Self::Compile { .. } | Self::Call { .. } => {
                "leave --nvrtc out, and report this with the version of NVRTC: the sources should compile everywhere"
            }
        }
    }

    /// How the program ends with it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Named(_) => Exit::Usage,
            Self::NotFound(_) | Self::TooOld { .. } | Self::Compile { .. } | Self::Call { .. } => Exit::Unexpected,
        }
    }
}

impl Diagnostic for NvrtcError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.advice()))
    }
}

/// The compiler, open.
#[derive(Debug)]
pub struct Nvrtc {
    functions: Functions,
    file: PathBuf,
    version: (i32, i32),
    architectures: Vec<u32>,
    _library: Library,
}

/// What to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Code for this architecture alone.
    Cubin(u32),
    /// PTX of this architecture, which the driver compiles on.
    Ptx(u32),
}

impl Target {
    fn option(self) -> String {
        match self {
            Self::Cubin(architecture) => format!("--gpu-architecture=sm_{architecture}"),
            Self::Ptx(architecture) => format!("--gpu-architecture=compute_{architecture}"),
        }
    }
}

impl Nvrtc {
    /// Opens the library at `named`, a file or a folder; without a name the one that `RUNGWISE_NVRTC` names, else the first
    /// that is found (by the system's loader, in Python packages, in toolkits) and is not made for a newer major version of
    /// CUDA than that of the `driver`, which would refuse its code.
    ///
    /// # Errors
    /// None can be used; the error says what was tried.
    pub fn open(named: Option<&Path>, driver: Option<Version>) -> Result<Self, NvrtcError> {
        let tree = HostTree::of_this_machine();
        let is_named = named.is_some() || tree.variable(WANTED.variable).is_some();
        let newest = driver.filter(|_| !is_named).map_or(i32::MAX, Version::major);
        let fits = |nvrtc: Self| match nvrtc.version.0 {
            major if major > newest => Err(format!("it is made for CUDA {major}, the driver for CUDA {newest}")),
            _ => Ok(nvrtc),
        };
        let opened = first(&WANTED, named, &tree, |file| Self::load(file).and_then(fits));
        opened.map_err(if is_named { NvrtcError::Named } else { NvrtcError::NotFound })
    }

    fn load(file: &Path) -> Result<Self, String> {
        let library = load(file)?;
        let functions = Functions::resolve(&library)?;
        let refused = |refused: Refused| NvrtcError::from(refused).to_string();
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are to locals that live through the call.
        unsafe { functions.version(&raw mut major, &raw mut minor) }.map_err(refused)?;
        let architectures = architectures(&functions).map_err(refused)?;
        Ok(Self { functions, file: file.to_path_buf(), version: (major, minor), architectures, _library: library })
    }

    /// The file, or the name by which the system's loader found it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its version, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a module for a device of this compute capability: code for exactly this architecture, which no driver can be
    /// too old for within the major version; or, where this NVRTC does not know the architecture, PTX of the newest that it
    /// knows and the device runs (GPU specification section 2).
    ///
    /// # Errors
    /// The source does not compile, or there is no such architecture.
    pub fn compile(&self, module: Module, capability: (u32, u32)) -> Result<Image<'static>, NvrtcError> {
        let too_old = NvrtcError::TooOld { version: self.version, capability };
        self.compile_for(module, target(&self.architectures, capability).ok_or(too_old)?)
    }

    fn compile_for(&self, module: Module, target: Target) -> Result<Image<'static>, NvrtcError> {
        self.compile_source(module, module.source(), target)
    }

    fn compile_source(&self, module: Module, source: &str, target: Target) -> Result<Image<'static>, NvrtcError> {
        const OPTIONS: c_int = 2;
        let program = Open::create(&self.functions, &format!("{}.cu", module.name()), source)?;
        let options: [CString; OPTIONS as usize] = [text(&target.option()), text(STANDARD)];
        let pointers = options.each_ref().map(|option| option.as_ptr());
        // SAFETY: the program is open, and the options live through the call.
        let compiled = unsafe { self.functions.compile(program.raw, OPTIONS, pointers.as_ptr()) };
        if let Err(refused) = compiled {
            // SAFETY: the program is open; NVRTC writes as many bytes as it says.
            let log = bytes(
                |size| unsafe { self.functions.log_size(program.raw, size) },
                |log| unsafe { self.functions.log(program.raw, log) },
            );
            let log = String::from_utf8_lossy(&log.unwrap_or_default()).trim_end_matches(['\0', '\n']).to_owned();
            return Err(if log.is_empty() { refused.into() } else { NvrtcError::Compile { module, log } });
        }
        match target {
            Target::Cubin(_) => {
                // SAFETY: the program is compiled; NVRTC writes as many bytes as it says.
                let code = bytes(
                    |size| unsafe { self.functions.cubin_size(program.raw, size) },
                    |code| unsafe { self.functions.cubin(program.raw, code) },
                )?;
                Ok(Image::Cubin(Cow::Owned(code)))
            }
            Target::Ptx(_) => {
                // SAFETY: the program is compiled; NVRTC writes as many bytes as it says.
                let ptx = bytes(
                    |size| unsafe { self.functions.ptx_size(program.raw, size) },
                    |ptx| unsafe { self.functions.ptx(program.raw, ptx) },
                )?;
                Ok(Image::Ptx(Cow::Owned(String::from_utf8_lossy(&ptx).trim_end_matches('\0').to_owned())))
            }
        }
    }
}

/// A program, destroyed when dropped.
struct Open<'functions> {
    functions: &'functions Functions,
    raw: Program,
}

impl<'functions> Open<'functions> {
    fn create(functions: &'functions Functions, name: &str, source: &str) -> Result<Self, Refused> {
        let (source, name) = (text(source), text(name));
        let mut raw = ptr::null_mut();
        // SAFETY: both texts live through the call, which copies them; there are no headers.
        unsafe { functions.create(&raw mut raw, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) }?;
        Ok(Self { functions, raw })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is open, and not used again.
        let _ = unsafe { self.functions.destroy(&raw mut self.raw) };
    }
}

/// The texts given to NVRTC are our own, and have no zero in them; one that had would end there.
fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn bytes(
    size: impl FnOnce(*mut usize) -> Result<(), Refused>,
    write: impl FnOnce(*mut c_char) -> Result<(), Refused>,
) -> Result<Vec<u8>, Refused> {
    let mut length = 0;
    size(&raw mut length)?;
    let mut bytes = vec![0_u8; length];
    write(bytes.as_mut_ptr().cast())?;
    Ok(bytes)
}

fn architectures(functions: &Functions) -> Result<Vec<u32>, Refused> {
    let mut count = 0;
    // SAFETY: the pointer is to a local that lives through the call.
    unsafe { functions.architecture_count(&raw mut count) }?;
    let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list is as long as NVRTC said.
    unsafe { functions.architectures(architectures.as_mut_ptr()) }?;
    Ok(architectures.into_iter().filter_map(|architecture| u32::try_from(architecture).ok()).collect())
}

/// The best that can be compiled for a device. Code of a lower minor architecture would run too, but the exact one or PTX is
/// what a device gets best from.
fn target(architectures: &[u32], (major, minor): (u32, u32)) -> Option<Target> {
    let exact = major * 10 + minor;
    if architectures.contains(&exact) {
        return Some(Target::Cubin(exact));
    }
    // The sources need architecture 80.
    let runs = |architecture: &u32| (80..exact).contains(architecture);
    architectures.iter().copied().filter(runs).max().map(Target::Ptx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_architecture_gives_code_and_a_newer_device_gets_ptx() {
        let known = [75, 80, 86, 90];
        assert_eq!(target(&known, (9, 0)), Some(Target::Cubin(90)));
        assert_eq!(target(&known, (8, 0)), Some(Target::Cubin(80)));
        assert_eq!(target(&known, (8, 9)), Some(Target::Ptx(86)));
        assert_eq!(target(&known, (12, 0)), Some(Target::Ptx(90)));
        assert_eq!(target(&[50, 75], (9, 0)), None);
        assert_eq!(target(&[100], (9, 0)), None);
        assert_eq!(Target::Cubin(90).option(), "--gpu-architecture=sm_90");
        assert_eq!(Target::Ptx(80).option(), "--gpu-architecture=compute_80");
    }

    /// The compiler that the environment names or this machine has.
    fn nvrtc() -> Option<Nvrtc> {
        match Nvrtc::open(None, None) {
            Ok(nvrtc) => Some(nvrtc),
            Err(NvrtcError::NotFound(_)) => {
                eprintln!("skipped: no NVRTC (RUNGWISE_NVRTC names one)");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn every_module_compiles_to_code_for_the_device() {
        const EM_CUDA: [u8; 2] = [190, 0];
        let Some(nvrtc) = nvrtc() else { return };
        for module in Module::ALL {
            for capability in [(8, 0), (9, 0)] {
                let image = nvrtc.compile(module, capability).unwrap_or_else(|error| panic!("{error}"));
                let Image::Cubin(code) = image else { panic!("{module:?} for {capability:?}: no code but PTX") };
                assert_eq!((&code[..4], &code[18..20]), (&b"\x7fELF"[..], &EM_CUDA[..]), "{module:?} {capability:?}");
                for kernel in kernels::launch::Kernel::ALL.iter().filter(|kernel| kernel.module() == module) {
                    let symbol = kernel.symbol().as_bytes();
                    assert!(code.windows(symbol.len()).any(|place| place == symbol), "{kernel:?} {capability:?}");
                }
            }
        }
    }

    #[test]
    fn ptx_of_the_version_that_ci_embeds_is_the_embedded_one() {
        let Some(nvrtc) = nvrtc() else { return };
        for module in Module::ALL {
            let Ok(Image::Ptx(ptx)) = nvrtc.compile_for(module, Target::Ptx(80)) else { panic!("{module:?}: no PTX") };
            assert!(ptx.contains(".target sm_80"), "{module:?}");
            if nvrtc.version() == (12, 0) {
                assert!(ptx == module.ptx(), "{module:?} differs from the embedded text: run kernels/cuda/compile.py");
            }
        }
    }

    #[test]
    fn a_source_that_does_not_compile_gives_the_compilers_words() {
        let Some(nvrtc) = nvrtc() else { return };
        let refused = nvrtc.compile_source(Module::Measure, "int answer = forty_two;", Target::Cubin(80)).unwrap_err();
        let NvrtcError::Compile { module: Module::Measure, log } = refused else { panic!("{refused:?}") };
        assert!(log.contains("measure.cu(1)") && log.contains("forty_two"), "{log}");
        // An architecture that it does not know is no fault of the source.
        let unknown = nvrtc.compile_for(Module::Measure, Target::Ptx(1)).unwrap_err();
        assert!(!unknown.to_string().contains("forty_two"), "{unknown}");
    }

    #[test]
    fn what_is_no_nvrtc_is_refused() {
        let refused = |place: &str| Nvrtc::open(Some(Path::new(place)), None).unwrap_err();
        assert_eq!(refused("/no/such/libnvrtc.so.12").exit(), Exit::Usage);
        // A library, but another one.
        let libc = refused("libc.so.6").to_string();
        assert!(libc.contains("libc.so.6: it has no nvrtcVersion"), "{libc}");
    }
}
