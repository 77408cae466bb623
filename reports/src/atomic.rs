//! Files that appear whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;
use thiserror::Error;

/// A result file that could not be written. The message holds the system's own, so `source()` does not repeat it.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The folder or the file cannot be written.
    #[error(
        "cannot create {}: {error}; check that its folder exists and that you may write there, or choose another place",
        path.display()
    )]
    Create {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Writing failed on the way; nothing was left behind.
    #[error("cannot write {}: {error}; nothing was left there: free some space or choose another place", path.display())]
    Write {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A file under a temporary name in its own folder, moved into place by [`AtomicFile::finish`]. A link stays one: the file that
/// it leads to is written.
///
/// Dropping it before that removes it, so an error leaves neither half a file nor a touched old one. A process that a signal
/// ends can call [`remove_unfinished`]; one that is killed while it writes leaves the temporary file, under a name that begins
/// with a dot.
#[derive(Debug)]
pub struct AtomicFile {
    /// As it was given.
    path: PathBuf,
    /// Where the file itself is, links followed.
    place: PathBuf,
    sink: BufWriter<NamedTempFile>,
    // Dropped after the sink: the file is gone by then.
    _unfinished: Unfinished,
}

/// The temporary files of this process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// An entry of [`UNFINISHED`].
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Unfinished {
    /// Opens a temporary file beside `path`. There is no moment in which it exists and has no entry: a signal may come in any.
    fn open(path: &Path) -> io::Result<(NamedTempFile, Self)> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let file = open_beside(path)?;
        unfinished.push(file.path().to_owned());
        let entry = Self(file.path().to_owned());
        Ok((file, entry))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Removes the temporary files of everything that is not finished, and keeps other threads from finishing or beginning
/// anything: for a process that is about to end.
pub fn remove_unfinished() {
    let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in unfinished.iter() {
        // What was moved into place meanwhile is not there any more.
        let _ = std::fs::remove_file(path);
    }
    // Who waits for the lock waits until the end.
    std::mem::forget(unfinished);
}

impl AtomicFile {
    /// Opens the temporary file beside `path`. A path that cannot be written fails here, before any long work.
    ///
    /// # Errors
    /// [`OutputError::Create`] if the folder does not exist or is not writable, or if `path` is itself a folder.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, OutputError> {
        let path = path.into();
        match place_of(&path).and_then(|place| Ok((Unfinished::open(&place)?, place))) {
            Ok(((file, unfinished), place)) => {
                Ok(Self { path, place, sink: BufWriter::new(file), _unfinished: unfinished })
            }
            Err(error) => Err(OutputError::Create { path, error }),
        }
    }

    /// The path that the finished file will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The temporary file with everything that was written so far: for whoever checks it before it takes the place of
    /// another.
    ///
    /// # Errors
    /// [`OutputError::Write`].
    pub fn draft(&mut self) -> Result<&Path, OutputError> {
        if let Err(error) = self.sink.flush() {
            return Err(OutputError::Write { path: self.path.clone(), error });
        }
        Ok(self.sink.get_ref().path())
    }

    /// Flushes to the disk and moves the file into place, over an older one if there is one.
    ///
    /// # Errors
    /// [`OutputError::Write`]; the temporary file is removed and an older file stays as it was.
    pub fn finish(self) -> Result<(), OutputError> {
        let Self { path, place, sink, _unfinished } = self;
        let moved = sink.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
            file.as_file().sync_all()?;
            file.persist(&place).map_err(|failed| failed.error)?;
            Ok(())
        });
        moved.map_err(|error| OutputError::Write { path, error })
    }

    /// Writes the whole file at once: `fill` writes the content, a failure of either leaves nothing.
    ///
    /// # Errors
    /// [`OutputError`], holding the error that `fill` returned.
    pub fn write(path: impl Into<PathBuf>, fill: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<(), OutputError> {
        let mut file = Self::create(path)?;
        match fill(&mut file) {
            Ok(()) => file.finish(),
            Err(error) => Err(OutputError::Write { path: file.path, error }),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Where a file is to be, links followed.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    let unfit = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        Ok(there) if !there.is_file() => unfit("it is no file, and would be replaced by one"),
        // What it leads to may be open elsewhere, as standard output is, and would be another file from then on.
        Ok(_) if is_link(path) && leads_through_system(path) => unfit("it leads to what a process has open"),
        Ok(_) if is_link(path) => std::fs::canonicalize(path),
        Err(_) if is_link(path) => unfit("it is a link to a file that is not there, and would be replaced by one"),
        _ => Ok(path.to_path_buf()),
    }
}

fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink())
}

/// Whether a link stands in or leads into the folders of devices and processes.
fn leads_through_system(path: &Path) -> bool {
    let is_system = |path: &Path| ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    let mut at = path.to_path_buf();
    // As many links as the system follows.
    for _ in 0..40 {
        let folder = at.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
        if is_system(&at) || folder.is_some_and(|folder| is_system(&folder)) {
            return true;
        }
        let Ok(next) = std::fs::read_link(&at) else { return false };
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    false
}

fn open_beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    // A bare file name has the parent "", which is the current folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        // The system's own word would name the temporary file.
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such folder"));
    }
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    // Temporary files are private by default; a result is an ordinary file, subject to the umask.
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the folder is ours");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_finished_file_is_whole_and_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("run.json");
        fs::write(&path, "old").expect("writable");
        AtomicFile::write(&path, |file| file.write_all(b"new")).expect("writes");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "new");
        assert_eq!(names(folder.path()), ["run.json"]);
    }

    #[test]
    fn a_draft_is_whole_and_touches_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("run.json");
        fs::write(&path, "old").expect("writable");
        let mut file = AtomicFile::create(&path).expect("writable");
        file.write_all(b"new").expect("writes");
        let draft = file.draft().expect("flushes").to_owned();
        assert_eq!(fs::read_to_string(&draft).expect("readable"), "new");
        assert_eq!(draft.parent(), path.parent());
        drop(file);
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
        assert_eq!(names(folder.path()), ["run.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_one_and_none_of_the_system_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [target, link, nowhere, output] =
            ["target", "link", "nowhere", "output"].map(|name| folder.path().join(name));
        fs::write(&target, "old").expect("writable");
        symlink("target", &link).expect("ours");
        AtomicFile::write(&link, |file| file.write_all(b"new")).expect("writes");
        assert_eq!(fs::read_to_string(&target).expect("readable"), "new");
        assert!(is_link(&link));
        symlink("missing", &nowhere).expect("ours");
        let open = fs::File::open(&target).expect("ours");
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&open);
        symlink(format!("/proc/self/fd/{descriptor}"), &output).expect("ours");
        for path in [&nowhere, &output] {
            AtomicFile::create(path).expect_err("refused");
            assert!(is_link(path));
        }
        assert_eq!(names(folder.path()).len(), 4);
    }

    #[test]
    fn a_failure_leaves_nothing_and_keeps_the_old_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("run.json");
        let failed = AtomicFile::write(&path, |file| {
            file.write_all(&vec![b'x'; 100_000])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        let error = failed.expect_err("the disk was full");
        assert!(matches!(&error, OutputError::Write { error, .. } if error.kind() == io::ErrorKind::StorageFull));
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));

        fs::write(&path, "old").expect("writable");
        let mut dropped = AtomicFile::create(&path).expect("creates");
        dropped.write_all(b"half").expect("buffered");
        drop(dropped);
        assert_eq!(names(folder.path()), ["run.json"]);
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
    }

    #[test]
    fn a_path_that_cannot_be_written_fails_before_the_work() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for path in [folder.path().join("missing/run.json"), folder.path().to_path_buf(), PathBuf::from("/")] {
            let error = AtomicFile::create(&path).expect_err("not writable");
            assert!(matches!(error, OutputError::Create { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("cannot create {}", path.display())), "{error}");
        }
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_replaced() {
        let error = AtomicFile::create("/dev/null").expect_err("a device");
        assert!(error.to_string().contains("it is no file, and would be replaced by one"), "{error}");
    }

    #[test]
    fn unfinished_files_are_known_until_they_are_finished_or_dropped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let known = || {
            let all = UNFINISHED.lock().expect("not poisoned");
            all.iter().filter(|path| path.starts_with(folder.path())).count()
        };
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let (one, other) = (AtomicFile::create(one).expect("creates"), AtomicFile::create(other).expect("creates"));
        assert_eq!(known(), 2);
        one.finish().expect("writes");
        assert_eq!(known(), 1);
        drop(other);
        assert_eq!(known(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_result_is_an_ordinary_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mode = |name: &str| fs::metadata(folder.path().join(name)).expect("written").permissions().mode() & 0o777;
        AtomicFile::write(folder.path().join("ours"), |file| file.write_all(b"x")).expect("writes");
        fs::write(folder.path().join("plain"), "x").expect("writes");
        assert_eq!(mode("ours"), mode("plain"));
    }
}
