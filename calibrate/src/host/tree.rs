//! The files and environment variables that the host is read from.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::reading::{NotAvailable, Reading};

/// More of a file than this is not read: everything of interest is short.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A root folder with `proc`, `sys` and `dev` below it, and an environment.
#[derive(Clone, Debug)]
pub struct HostTree {
    root: PathBuf,
    environment: BTreeMap<String, String>,
}

impl HostTree {
    /// This machine, and the environment of this process.
    pub fn of_this_machine() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self { root: PathBuf::from("/"), environment: environment.collect() }
    }

    /// A made-up machine below `root`.
    pub fn below(root: impl Into<PathBuf>, environment: BTreeMap<String, String>) -> Self {
        Self { root: root.into(), environment }
    }

    /// The value of an environment variable, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The whole of a text file. `path` is relative to the root; a leading `/` changes nothing.
    ///
    /// # Errors
    /// It is not there, not readable, or no text.
    pub fn text(&self, path: impl AsRef<Path>) -> Reading<String> {
        let place = self.place(path.as_ref());
        let mut bytes = Vec::new();
        let read = File::open(&place).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        read.map_err(|error| NotAvailable(format!("{}: {}", self.shown(&place), reason(&error))))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first line of a text file, without blanks around it.
    ///
    /// # Errors
    /// As [`HostTree::text`], or the file is empty.
    pub fn line(&self, path: impl AsRef<Path>) -> Reading<String> {
        let path = path.as_ref();
        let text = self.text(path)?;
        let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
        line.map(str::to_owned).ok_or_else(|| NotAvailable(format!("{} is empty", self.shown(&self.place(path)))))
    }

    /// What stands behind `key:` in a file of such lines: the first.
    ///
    /// # Errors
    /// As [`HostTree::text`], or no line has the key.
    pub fn field(&self, path: &str, key: &str) -> Reading<String> {
        let text = self.text(path)?;
        let mut values = text.lines().filter_map(|line| line.split_once(':'));
        let value = values.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned());
        value.ok_or_else(|| NotAvailable(format!("/{path} has no {key}")))
    }

    /// Names of the entries of a folder, sorted; empty if it cannot be read.
    pub fn entries(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(Path::new(path))).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether something is at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.metadata(path).is_some()
    }

    /// Type, owner and permissions of what is at `path`.
    pub fn metadata(&self, path: &str) -> Option<Metadata> {
        fs::metadata(self.place(Path::new(path))).ok()
    }

    /// That a file has something else in it than expected.
    pub fn unexpected(&self, path: &str, content: &str) -> NotAvailable {
        const CONTENT_CHARACTERS_MAX: usize = 40;
        let content: String = content.chars().take(CONTENT_CHARACTERS_MAX).collect();
        NotAvailable(format!("/{path} reads {content:?}"))
    }

    /// Where `path` is on this machine.
    pub fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The path below the root of a place on this machine.
    pub fn shown(&self, place: &Path) -> String {
        format!("/{}", place.strip_prefix(&self.root).unwrap_or(place).display())
    }
}

/// A system error without its number, and the same on every system.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "not there".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
