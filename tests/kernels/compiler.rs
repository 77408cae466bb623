//! Builds the executor, from the sources as they are or from a changed copy of them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

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

/// The executor over the sources as they are, built once. Every library that is loaded is a copy with a state of its own,
/// so that tests run side by side. `None` without a compiler.
pub(crate) fn executor() -> Option<Library> {
    static BUILT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("executor.so");
    let build_once = || {
        build(&compiler()?, &sources(), "-O2", &[], &path);
        Some(fs::read(&path).unwrap())
    };
    let built = BUILT.get_or_init(build_once).as_ref()?;
    fs::write(&path, built).unwrap();
    Some(Library::open(&path))
}

/// Builds one module alone, `file`, for a few launches: that is quicker.
pub(crate) fn build_module(compiler: &OsString, sources: &Path, file: &str, library: &Path) -> Library {
    let module = file.trim_end_matches(".cu").to_uppercase();
    build(compiler, sources, "-O1", &[format!("-DRUNGWISE_WITH_{module}")], library);
    Library::open(library)
}

fn build(compiler: &OsString, sources: &Path, optimisation: &str, definitions: &[String], library: &Path) {
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
}
