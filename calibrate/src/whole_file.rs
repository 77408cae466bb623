//! Files that are there whole or not at all.

use std::io::{self, Write};
use std::path::Path;

/// Writes a file so that the path holds either the whole new text or what it held before.
///
/// # Errors
/// The folder is missing or cannot be written; nothing is left behind then.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one gets what the process's umask grants.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
