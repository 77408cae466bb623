//! The `calibrate` binary with the doubles in place of the driver's libraries.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with the doubles, under the names that the driver's libraries have.
pub(crate) struct Doubled(TempDir);

impl Doubled {
    /// The driver's double alone: a machine without NVML.
    pub(crate) fn driver() -> Self {
        // cudarc tries the plain name first: a real driver's must not be found under it.
        Self::under(&["libcuda.so", "libcuda.so.1"])
    }

    /// The doubles of the driver and of NVML.
    pub(crate) fn driver_and_nvml() -> Self {
        Self::under(&["libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1"])
    }

    fn under(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder to write to");
        for name in names {
            fs::copy(library(), folder.path().join(name)).expect("the double was built with the tests");
        }
        Self(folder)
    }

    /// Runs the binary with these variables set; those of the machine that tests run on do not count.
    pub(crate) fn calibrate(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_calibrate"));
        for name in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NO_COLOR", "COLUMNS"] {
            command.env_remove(name);
        }
        command.args(arguments).env("LD_LIBRARY_PATH", self.0.path()).envs(variables.iter().copied());
        command.output().expect("the binary was built")
    }
}

/// Cargo leaves the shared library of a dependency beside the tests themselves.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this test runs from a file");
    tests.parent().expect("in a folder").join("libdriver_double.so")
}
