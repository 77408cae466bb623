//! What a source is, told by its first lines.

use calibrate::stderr::printable;

use super::error::ImportError;

/// What a source is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The log of a vLLM or SGLang server.
    Log,
}

/// A source that is nothing known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its first lines, shortened.
    pub head: String,
    /// What it may be, and what to do.
    pub hint: &'static str,
}

/// Lines of a foreign source that a message shows, and characters of each.
const SHOWN: (usize, usize) = (3, 80);

impl Kind {
    /// In words.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Log => "log of a server",
        }
    }

    /// What a source with these first bytes is.
    ///
    /// # Errors
    /// If it is nothing known.
    pub fn of(head: &[u8]) -> Result<Self, Foreign> {
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            return Err(Self::foreign(
                head,
                "This is UTF-16, as PowerShell writes it: convert it, for instance with \
                `iconv -f UTF-16 -t UTF-8`. ",
            ));
        }
        if head.iter().all(u8::is_ascii_whitespace) {
            return Err(Self::foreign(head, "The file is empty. "));
        }
        Ok(Self::Log)
    }

    /// A source that is nothing known.
    #[must_use]
    pub fn foreign(head: &[u8], hint: &'static str) -> Foreign {
        let text = String::from_utf8_lossy(&head[..head.len().min(1 << 12)]);
        let shown = |line: &str| {
            let line: String = line.chars().take(SHOWN.1).collect();
            format!("  {}", printable(line.trim_end()).replace('\t', " "))
        };
        let lines: Vec<String> = text.lines().take(SHOWN.0).map(shown).collect();
        Foreign { head: lines.join("\n"), hint }
    }
}

impl Foreign {
    /// The message.
    #[must_use]
    pub fn error(self, name: &str) -> ImportError {
        let help = format!(
            "{}Known are logs of vLLM and SGLang servers, plain or packed with gzip or zstd; --from says which it is",
            self.hint
        );
        ImportError::Foreign { name: printable(name), head: self.head, help }
    }
}
