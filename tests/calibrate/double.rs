//! The binary against the driver double, which lies under the names that it looks for in a folder of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Names under which the driver is looked for: the first is what cudarc tries first, so that a machine's own driver cannot
/// be met by accident.
const DRIVER: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
/// The name of NVML, which the same library plays.
const NVML: &str = "libnvidia-ml.so.1";

/// Variables of the machine that tests run on, which must not count.
const VARIABLES: [&str; 7] = [
    "NO_COLOR",
    "COLUMNS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "NVIDIA_VISIBLE_DEVICES",
    "RUNGWISE_CUBLASLT",
];

/// A folder with the double.
pub(crate) struct Double {
    folder: TempDir,
    kernels: Option<&'static Path>,
}

/// A run of the binary, and what the double reports of it.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) report: String,
}

impl Double {
    /// The driver's double alone, a machine without NVML; its kernels compute nothing.
    pub(crate) fn driver() -> Self {
        Self::under(&DRIVER)
    }

    /// The doubles of the driver and of NVML.
    pub(crate) fn driver_and_nvml() -> Self {
        Self::under(&[DRIVER[0], DRIVER[1], NVML])
    }

    /// With the double of cuBLASLt beside it; the path to name it by.
    pub(crate) fn with_blaslt(self) -> (Self, String) {
        let path = self.folder.path().join("libcublasLt.so.12");
        fs::copy(library(), &path).expect("the folder can be written");
        let path = path.to_str().expect("folders of tests are text").to_owned();
        (self, path)
    }

    fn under(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder to write to");
        let library = library();
        let bytes =
            fs::read(&library).expect("the dev-dependency on driver-double builds its library beside this test");
        let marker = b"rungwise_double_version";
        let has_marker = bytes.windows(marker.len()).any(|window| window == marker);
        assert!(has_marker, "{} is not the double: it lacks the marker", library.display());
        for name in names {
            fs::copy(&library, folder.path().join(name)).expect("the folder can be written");
        }
        Self { folder, kernels: None }
    }

    /// The double with the real kernels on the CPU. `None` where no C++ compiler can build their executor.
    pub(crate) fn with_kernels() -> Option<Self> {
        static EXECUTOR: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
        let (_, path) = EXECUTOR.get_or_init(build_executor).as_ref()?;
        Some(Self { kernels: Some(path), ..Self::driver() })
    }

    /// Takes an exported function away: another name of the same length stands in its place.
    pub(crate) fn lacking(self, function: &str) -> Self {
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        for file in DRIVER {
            let path = self.folder.path().join(file);
            let mut bytes = fs::read(&path).expect("the double was copied there");
            let place = bytes.windows(name.len()).position(|window| window == name);
            bytes[place.expect("the double exports it") + 1] = b'x';
            fs::write(&path, bytes).expect("the folder can be written");
        }
        self
    }

    /// Where the libraries lie; also a place for files of a test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The binary with these variables set, not run yet.
    pub(crate) fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_calibrate"));
        command.args(arguments);
        self.prepare(&mut command, variables);
        command
    }

    /// Makes the double the driver of a program that is not run yet, with these variables set.
    fn prepare(&self, command: &mut Command, variables: &[(&str, &str)]) {
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("RUNGWISE_DOUBLE_REPORT", self.report());
        if let Some(kernels) = self.kernels {
            command.env("RUNGWISE_DOUBLE_KERNELS", kernels);
        }
        command.envs(variables.iter().copied());
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// Runs the binary with these variables set.
    pub(crate) fn calibrate(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        self.finished(self.command(arguments, variables))
    }

    /// Runs a program whose driver is the double, with these variables set.
    pub(crate) fn run(&self, mut command: Command, variables: &[(&str, &str)]) -> Run {
        self.prepare(&mut command, variables);
        self.finished(command)
    }

    fn finished(&self, mut command: Command) -> Run {
        let _ = fs::remove_file(self.report());
        let output = command.output().expect("the program was built");
        let report = fs::read_to_string(self.report()).expect("the double answered, for only it writes a report");
        Run { output, report }
    }
}

impl Run {
    /// Breaches of the driver's rules and leaks: none, whatever was planted.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        self.report.lines().filter(|line| line.starts_with("violation:") || line.starts_with("leak:")).collect()
    }

    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.output.stdout).expect("output is text")
    }

    pub(crate) fn stderr(&self) -> &str {
        std::str::from_utf8(&self.output.stderr).expect("output is text")
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

/// Where cargo leaves the double's library: beside this test's executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    test.with_file_name("libdriver_double.so")
}

fn build_executor() -> Option<(TempDir, PathBuf)> {
    let root = Path::new(ROOT);
    compiled(&root.join("tests/executor/executor.cpp"), &root.join("kernels/cuda"))
}

/// Builds a shared library of a C++ source with the first compiler that answers; `None` where none does.
pub(crate) fn compiled(source: &Path, includes: &Path) -> Option<(TempDir, PathBuf)> {
    let named = std::env::var_os("CXX").into_iter();
    let compilers = named.chain(["g++", "c++", "clang++"].map(OsString::from));
    let answers = |compiler: &OsString| {
        Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let Some(compiler) = compilers.into_iter().find(answers) else {
        println!("skipped: no C++ compiler");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder to write to");
    let path = folder.path().join("libkernels_cpu.so");
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O2", "-shared", "-fPIC", "-I"]).arg(includes).arg(source).arg("-o").arg(&path);
    let built = command.output().expect("the compiler answered before");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some((folder, path))
}
