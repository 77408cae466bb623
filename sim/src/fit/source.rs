//! One file that is read: its text, and what names it for good.

use std::path::Path;

use super::FitError;
use crate::file_error::FileError;
use crate::import::input::Input;
use crate::record::sha256;

/// The most bytes of a table that are read; the largest public one has about 10 MB.
const LIMIT: u64 = 256 << 20;

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, as it was named.
    pub file: String,
    /// What it holds.
    pub text: String,
    /// SHA-256 of its bytes as they lie there, lower-case hexadecimal.
    pub sha256: String,
}

impl Source {
    /// Reads a file of text, packed or not, or standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read, is no text, or is too large for a table.
    pub fn read(path: &Path) -> Result<Self, FitError> {
        let unreadable = |source| FileError::open(path.display().to_string(), source);
        let mut input = Input::open(path).map_err(unreadable)?;
        let file = input.name.clone();
        let Some(bytes) = input.read_whole(LIMIT).map_err(unreadable)? else {
            return Err(FitError::file(&file, format!("more than {LIMIT} bytes"), "give the table alone"));
        };
        let origin = input.finish().map_err(unreadable)?;
        Ok(Self { sha256: origin.sha256, ..Self::of(file, bytes)? })
    }

    /// The file and its hash, for a provenance.
    #[must_use]
    pub fn cited(&self) -> String {
        format!("{} (SHA-256 {})", self.file, self.sha256)
    }

    /// The bytes of a file that has been read.
    ///
    /// # Errors
    /// They are no text.
    pub fn of(file: String, bytes: Vec<u8>) -> Result<Self, FitError> {
        let sha256 = sha256(&bytes);
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { file, text, sha256 }),
            Err(error) => {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = before.split(|&byte| byte == b'\n').count() as u64;
                let help = "give a table or a log as text in UTF-8";
                Err(FitError::line(&file, line, "bytes that are no text", help))
            }
        }
    }
}
