//! A file of text, read whole.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::file_error::FileError;
use crate::validate::ValidateError;

/// The most bytes that are read of one file: a run of a million requests has 250 MB.
const BYTES_MAX: u64 = 1 << 30;

/// What to do about a file that is cut off.
pub const WHOLE: &str = "give the file whole, as the benchmark wrote it";

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file, as messages name it.
    pub file: String,
    /// What it holds, without a byte-order mark.
    pub text: String,
}

/// What is wrong with JSON, and in which column; the line is said elsewhere.
#[must_use]
pub fn fault_of_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("{what}, column {}", error.column())
}

impl Text {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is too large, or is no text.
    pub fn read(path: &Path) -> Result<Self, ValidateError> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut bytes));
        let length = read.map_err(|source| FileError::open(&file, source))?;
        if length as u64 > BYTES_MAX {
            return Err(ValidateError::file(&file, format!("more than {BYTES_MAX} bytes"), "give the file of one run"));
        }
        Self::of(&file, bytes)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// They are no text, or there are none.
    pub fn of(file: &str, bytes: Vec<u8>) -> Result<Self, ValidateError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|&byte| byte == b'\n').count() as u64;
            ValidateError::line(file, line, "bytes that are no text", "give the file in UTF-8")
        })?;
        let text = text.trim_start_matches('\u{feff}').to_owned();
        if text.trim().is_empty() {
            return Err(ValidateError::file(file, "an empty file", WHOLE));
        }
        Ok(Self { file: file.to_owned(), text })
    }

    /// The lines that hold anything, with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &str)> {
        (1..).zip(self.text.lines()).filter(|(_, line)| !line.trim().is_empty())
    }
}
