//! Input as files: most parsers read a path.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;

/// One folder for the whole run; each input replaces the files of the one before.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("a temporary folder")
});

/// Cuts one input into several files.
const CUT: &[u8] = b"\n--- next file ---\n";

/// The folder of inputs.
pub fn folder() -> &'static Path {
    FOLDER.path()
}

/// The input as a file of this name.
pub fn one(name: &str, data: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, data).expect("the folder takes files");
    path
}

/// The input as a subfolder with files of these names, in this order; those that the input does not reach are missing.
pub fn several(subfolder: &str, names: &[&str], data: &[u8]) -> PathBuf {
    let path = folder().join(subfolder);
    if path.exists() {
        fs::remove_dir_all(&path).expect("the folder gives files back");
    }
    fs::create_dir(&path).expect("the folder takes folders");
    let mut rest = Some(data);
    for name in names {
        let Some(text) = rest else { break };
        let cut = text.windows(CUT.len()).position(|window| window == CUT);
        fs::write(path.join(name), &text[..cut.unwrap_or(text.len())]).expect("the folder takes files");
        rest = cut.map(|cut| &text[cut + CUT.len()..]);
    }
    path
}
