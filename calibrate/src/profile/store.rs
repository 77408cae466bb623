//! Profiles on disk and built in.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::{Profile, ProfileError};

/// The most bytes of a profile file that are read: the largest built-in one has about 50 kB.
const LIMIT: u64 = 64 << 20;

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        /// Names of the built-in profiles, for [`Profile::builtin`].
        pub const BUILTIN: &[&str] = &[$($name),*];

        fn builtin_text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../../scenarios/profiles/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

builtins![
    "textbook",
    "textbook-weight-bound",
    "a100-llama-3-8b",
    "h100-llama-2-7b",
    "h200-llama-3.1-8b",
    "rtx4090-llama-3.1-8b",
];

impl Profile {
    /// Reads a profile file.
    ///
    /// # Errors
    /// If the file cannot be read, or as [`Profile::from_toml`].
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let unreadable = |source| ProfileError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_string(&mut text)).map_err(unreadable)?;
        if read as u64 > LIMIT {
            return Err(ProfileError::TooLarge { path: path.to_owned(), limit: LIMIT });
        }
        Self::from_toml(&text, &path.display().to_string())
    }

    /// One of the [`BUILTIN`] profiles.
    ///
    /// # Errors
    /// [`ProfileError::UnknownBuiltin`] if there is none of that name.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        let text = builtin_text(name).ok_or_else(|| ProfileError::UnknownBuiltin { name: name.to_owned() })?;
        Self::from_toml(text, &format!("built-in profile {name}"))
    }

    /// What a user names on a command line: a built-in profile, else a file.
    ///
    /// # Errors
    /// As [`Profile::load`]; a bare word that is no file either is [`ProfileError::UnknownBuiltin`].
    pub fn open(name_or_path: &OsStr) -> Result<Self, ProfileError> {
        let name = name_or_path.to_string_lossy();
        let path = Path::new(name_or_path);
        let bare_word = path.components().count() == 1 && path.extension().is_none_or(|end| end != "toml");
        if BUILTIN.contains(&&*name) || (bare_word && !path.exists()) {
            return Self::builtin(&name);
        }
        Self::load(path)
    }

    /// Writes the profile so that the path holds either the whole new file or what it held before.
    ///
    /// # Errors
    /// [`ProfileError::Write`] if the folder is missing or cannot be written; nothing is left behind then.
    pub fn save(&self, path: &Path) -> Result<(), ProfileError> {
        self.write_whole(path).map_err(|source| ProfileError::Write { path: path.to_owned(), source })
    }

    fn write_whole(&self, path: &Path) -> io::Result<()> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // Temporary files are private by default; a profile gets what the process's umask grants.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(self.to_toml().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}
