//! Where a profile goes: its file, what is kept beside it until it is there, and what stood there before.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::profile::{Profile, ProfileError};
use crate::whole_file::WholeFile;

/// Bytes of a device's or a model's name in the name of a file, at most: file systems take 255 for the whole.
const NAME_MOST: usize = 80;
/// Earlier profiles that are kept beside a new one, at most.
const EARLIER_MOST: u32 = 9999;

/// The file of a profile that is going to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    file: PathBuf,
}

impl Destination {
    /// The file of this name.
    pub(crate) fn at(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// Named after device and model, in the folder that the program runs in: `nvidia-h200-llama-3.1-8b.toml`.
    pub(crate) fn named_after(device: &str, model: &str, ranks: u32) -> Self {
        let rank = if ranks > 1 { format!("-tp{ranks}") } else { String::new() };
        Self { file: PathBuf::from(format!("{}-{}{rank}.toml", plain(device), plain(model))) }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Where results are kept until the profile is written.
    pub(crate) fn partial(&self) -> PathBuf {
        self.beside("partial")
    }

    /// That everything can be written, before minutes of measuring and not after them.
    ///
    /// # Errors
    /// The folder cannot be written; something else than a file is in one of the places; what is there cannot be read; or the
    /// names are longer than a file's can be.
    pub(crate) fn check(&self) -> io::Result<()> {
        drop(WholeFile::begin(&self.file)?);
        if self.file.exists() {
            drop(File::open(&self.file)?);
        }
        for name in [self.partial(), self.beside(&EARLIER_MOST.to_string())] {
            let about = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
            drop(WholeFile::begin(&name).map_err(about)?);
        }
        Ok(())
    }

    /// Writes the profile. What stood in its place stays beside it under the first free name, `x.toml.1` and so on: an
    /// earlier profile took minutes too. That name, where something stood there.
    ///
    /// # Errors
    /// The profile cannot be written, or what stood there cannot be kept; then everything is as it was.
    pub(crate) fn write(&self, profile: &Profile) -> Result<Option<PathBuf>, ProfileError> {
        let unwritable = |source| ProfileError::Write { path: self.file.clone(), source };
        let earlier = self.keep_earlier().map_err(unwritable)?;
        if let Err(error) = profile.save(&self.file) {
            if let Some(copy) = &earlier {
                let _ = fs::remove_file(copy);
            }
            return Err(error);
        }
        Ok(earlier)
    }

    /// Removes what was kept until the profile was there; what cannot be removed is left.
    pub(crate) fn remove_partial(&self) {
        let _ = fs::remove_file(self.partial());
    }

    /// Gives what is there another name too, which takes no room and is done at once or not at all.
    fn keep_earlier(&self) -> io::Result<Option<PathBuf>> {
        // Of a link, the file that it leads to.
        let earlier = match fs::canonicalize(&self.file) {
            Ok(earlier) => earlier,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        for number in 1..=EARLIER_MOST {
            let name = self.beside(&number.to_string());
            match fs::hard_link(&earlier, &name) {
                Ok(()) => return Ok(Some(name)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // Not every file system gives a file two names, and none does for one of another.
                Err(_) => match copy(&earlier, &name) {
                    Ok(()) => return Ok(Some(name)),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = OsString::from(&self.file);
        name.push(".");
        name.push(end);
        name.into()
    }
}

/// Copies a file to a name that is free: all of it, or nothing.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut copy = tempfile::NamedTempFile::new_in(folder)?;
    let mut from = File::open(from)?;
    io::copy(&mut from, &mut copy)?;
    copy.flush()?;
    copy.as_file().set_permissions(from.metadata()?.permissions())?;
    copy.as_file().sync_all()?;
    copy.persist_noclobber(to)?;
    Ok(())
}

/// A name as part of a file's.
fn plain(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(kept).collect();
    let mut name = name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    name.truncate(NAME_MOST);
    name.truncate(name.trim_end_matches('-').len());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile::builtin("textbook").unwrap()
    }

    #[test]
    fn files_are_named_after_device_and_model() {
        assert_eq!(plain("NVIDIA GeForce RTX 4090 (Laptop)"), "nvidia-geforce-rtx-4090-laptop");
        assert_eq!(plain("../../etc"), "..-..-etc");
        assert_eq!(Destination::at(Path::new("a/b.toml")).partial(), Path::new("a/b.toml.partial"));
        let sharded = Destination::named_after("NVIDIA H200", "llama-3.1-8b", 4);
        assert_eq!(sharded.file(), Path::new("nvidia-h200-llama-3.1-8b-tp4.toml"));
        let long = Destination::named_after(&"d".repeat(400), &"é".repeat(400), 1024);
        assert!(long.beside(&EARLIER_MOST.to_string()).as_os_str().len() < 255);
    }

    #[test]
    fn what_stood_there_is_kept_under_the_first_free_name() {
        let folder = tempfile::tempdir().unwrap();
        let [file, first, second] = ["a.toml", "a.toml.1", "a.toml.2"].map(|name| folder.path().join(name));
        let destination = Destination::at(&file);
        assert_eq!(destination.write(&profile()).unwrap(), None);
        fs::write(&file, "one").unwrap();
        assert_eq!(destination.write(&profile()).unwrap(), Some(first.clone()));
        fs::write(&file, "two").unwrap();
        assert_eq!(destination.write(&profile()).unwrap(), Some(second.clone()));
        assert_eq!([&first, &second].map(|copy| fs::read_to_string(copy).unwrap()), ["one", "two"]);
        assert_eq!(Profile::load(&file).unwrap(), profile());
    }

    #[test]
    fn a_profile_that_cannot_be_written_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        fs::write(&file, "one").unwrap();
        let mut unreadable = profile();
        unreadable.machine.memory.figures.total.0 = 0;
        assert!(matches!(Destination::at(&file).write(&unreadable), Err(ProfileError::Unreadable { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_is_whole_and_takes_nobodys_place() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::write(&from, "text").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "text");
        assert_eq!(copy(&from, &to).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_written_is_known_before() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let refused = |file: &Path| Destination::at(file).check().unwrap_err().to_string();
        assert_eq!(refused(Path::new("/dev/null")), "it is no file, and would be replaced by one");
        fs::create_dir(path("a.toml.partial")).unwrap();
        assert!(refused(&path("a.toml")).ends_with("a.toml.partial: it is a folder"));
        symlink(path("nothing"), path("link.toml")).unwrap();
        assert!(refused(&path("link.toml")).starts_with("it is a link to a file that is not there"));
        // With `.partial` behind it, it is too long.
        assert!(refused(&path(&"n".repeat(250))).contains("File name too long"));
        assert!(Destination::at(&path(&"n".repeat(240))).check().is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }
}
