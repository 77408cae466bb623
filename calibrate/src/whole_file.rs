//! Files that are there whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is going to be written, under a temporary name beside its place until then.
#[derive(Debug)]
pub(crate) struct WholeFile {
    file: NamedTempFile,
    place: PathBuf,
}

impl WholeFile {
    /// Opens the temporary file: a path that cannot be written fails here, before any long work. A link stays one: the file
    /// that it leads to is written.
    ///
    /// # Errors
    /// The folder is missing or cannot be written; the name is one that no file can have; or something else than a file is
    /// there, a device or a link to nothing for instance, which the new file would take the place of.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        let place = match fs::metadata(path) {
            Ok(found) if found.is_file() => fs::canonicalize(path)?,
            Ok(found) if found.is_dir() => return Err(io::Error::other("it is a folder")),
            Ok(_) => return Err(io::Error::other("it is no file, and would be replaced by one")),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                return Err(io::Error::other("it is a link to a file that is not there, and would be replaced by one"));
            }
            Err(_) => path.to_path_buf(),
        };
        let folder = match place.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // Temporary files are private by default; this one gets what the process's umask grants.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(without_path)?;
        Ok(Self { file, place })
    }

    /// Writes the text, so that the path holds either all of it or what it held before.
    ///
    /// # Errors
    /// It cannot be written; nothing is left behind then.
    pub(crate) fn finish(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes()).map_err(without_path)?;
        self.file.as_file().sync_all()?;
        self.file.persist(&self.place).map_err(|error| without_path(error.error))?;
        Ok(())
    }
}

/// The system's reason alone: the name of a temporary file tells nobody anything.
fn without_path(error: io::Error) -> io::Error {
    let said = error.to_string();
    match said.split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Writes a file so that the path holds either the whole new text or what it held before.
///
/// # Errors
/// As for [`WholeFile::begin`] and [`WholeFile::finish`].
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    WholeFile::begin(path)?.finish(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the folder is ours");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_there_when_it_is_finished_and_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rules.toml");
        fs::write(&path, "old").expect("writable");
        let begun = WholeFile::begin(&path).expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
        begun.finish("new").expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "new");
        drop(WholeFile::begin(&path).expect("writable"));
        assert_eq!(names(folder.path()), ["rules.toml"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_what_is_no_file_is_not_replaced() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        use std::os::unix::net::UnixListener;

        let folder = tempfile::tempdir().expect("a temporary folder");
        let [file, link, socket] = ["file", "link", "socket"].map(|name| folder.path().join(name));
        fs::write(&file, "old").expect("writable");
        symlink(&file, &link).expect("writable");
        write(&link, "new").expect("writable");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("readable"), "new");

        let _listener = UnixListener::bind(&socket).expect("writable");
        let refused = WholeFile::begin(&socket).expect_err("it is no file");
        assert_eq!(refused.to_string(), "it is no file, and would be replaced by one");
        assert!(fs::metadata(&socket).expect("there").file_type().is_socket());
        assert_eq!(WholeFile::begin(folder.path()).expect_err("a folder").to_string(), "it is a folder");
        assert_eq!(names(folder.path()).len(), 3);

        let dangling = folder.path().join("dangling");
        symlink(folder.path().join("nothing"), &dangling).expect("writable");
        let refused = WholeFile::begin(&dangling).expect_err("it leads nowhere").to_string();
        assert!(refused.starts_with("it is a link to a file that is not there"), "{refused}");
        let refused = |name: &str| WholeFile::begin(&folder.path().join(name)).expect_err("no such file can be");
        assert_eq!(refused(&"n".repeat(256)).kind(), io::ErrorKind::InvalidFilename);
        assert_eq!(refused("no/folder").to_string(), "No such file or directory (os error 2)");
        assert_eq!(names(folder.path()).len(), 4);
    }
}
