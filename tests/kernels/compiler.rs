//! Builds the executor, from the sources as they are or from a changed copy of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::executor::Library;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of the CUDA sources.
pub(crate) fn sources() -> PathBuf {
    root().join("kernels/cuda")
}

/// The first C++ compiler that answers: `$CXX`, then the usual names.
pub(crate) fn compiler() -> Option<OsString> {
    let named = std::env::var_os("CXX");
    let usual = ["g++", "c++", "clang++"].map(OsString::from);
    let answers = |compiler: &OsString| {
        Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = named.into_iter().chain(usual).find(answers);
    if found.is_none() {
        println!("skipped: no C++ compiler");
    }
    found
}

/// Builds `tests/executor` over the sources in `sources` into `library`, and loads it.
pub(crate) fn build(compiler: &OsString, sources: &Path, library: &Path) -> Library {
    build_with(compiler, sources, "-O2", &[], library)
}

/// Builds one module alone, `file`, for a few launches: that is quicker.
pub(crate) fn build_module(compiler: &OsString, sources: &Path, file: &str, library: &Path) -> Library {
    let module = file.trim_end_matches(".cu").to_uppercase();
    build_with(compiler, sources, "-O1", &[format!("-DRUNGWISE_WITH_{module}")], library)
}

fn build_with(
    compiler: &OsString,
    sources: &Path,
    optimisation: &str,
    definitions: &[String],
    library: &Path,
) -> Library {
    let output = Command::new(compiler)
        .args(["-std=c++17", optimisation, "-shared", "-fPIC"])
        .args(definitions)
        .arg("-I")
        .arg(sources)
        .arg(root().join("tests/executor/executor.cpp"))
        .arg("-o")
        .arg(library)
        .output()
        .expect("the compiler answered before");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} does not build:\n{errors}", sources.display());
    Library::open(library)
}
