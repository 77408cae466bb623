//! Where NVIDIA's optional libraries may be: the loader's own places, Python packages, toolkits.
//!
//! Python's folders are found by their usual places, without running Python: an interpreter can take seconds to start, and
//! can run anything.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::host::HostTree;

/// A library to look for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Name up to its version, such as `libnvrtc.so`.
    pub(super) stem: &'static str,
    /// Versions that the system's loader is asked for, newest first.
    pub(super) versions: &'static [&'static str],
    /// Folder of its wheel for CUDA 12 below `nvidia`; that of later ones is `cu13` and so on.
    pub(super) wheel: &'static str,
    /// Environment variable that names the library or its folder.
    pub(super) variable: &'static str,
}

/// Opens a library of NVIDIA's, whose initialisers set up its own state.
///
/// # Errors
/// What the loader says, without the name.
pub(super) fn load(file: &Path) -> Result<Library, String> {
    // SAFETY: NVIDIA's libraries, or what the user named as one of them; loading one is what was asked for.
    unsafe { Library::new(file) }.map_err(|error| {
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let name = format!("{}: ", file.display());
        reason.strip_prefix(&name).map_or(reason.clone(), str::to_owned)
    })
}

/// A file that was tried and does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The file, or the name that the loader was asked for.
    pub file: PathBuf,
    /// Why it does not do.
    pub why: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

/// Opens the first file that will do. A library named by the caller or by the environment is the only one tried: another one
/// instead would be a surprise.
pub(super) fn first<T>(
    wanted: &Wanted,
    named: Option<&Path>,
    tree: &HostTree,
    mut open: impl FnMut(&Path) -> Result<T, String>,
) -> Result<T, Vec<Tried>> {
    let named = named.map(Path::to_path_buf).or_else(|| tree.variable(wanted.variable).map(PathBuf::from));
    let files = match &named {
        Some(place) if place.is_dir() => {
            let inside = inside(wanted, place);
            if inside.is_empty() {
                return Err(vec![Tried { file: place.clone(), why: format!("this folder has no {}", wanted.stem) }]);
            }
            inside
        }
        // The loader looks for a bare name in its own places only.
        Some(file) if file.parent() == Some(Path::new("")) && file.is_file() => vec![Path::new(".").join(file)],
        Some(file) => vec![file.clone()],
        None => files(wanted, tree),
    };
    let mut tried = Vec::new();
    for file in files {
        match open(&file) {
            Ok(opened) => return Ok(opened),
            Err(why) => tried.push(Tried { file, why }),
        }
    }
    Err(tried)
}

/// Every name to try, in order: what the system's loader knows, then the files in Python packages and toolkits.
fn files(wanted: &Wanted, tree: &HostTree) -> Vec<PathBuf> {
    let names = wanted.versions.iter().map(|version| PathBuf::from(format!("{}.{version}", wanted.stem)));
    let packages = python_folders(tree).into_iter().flat_map(|packages| {
        let nvidia = format!("{packages}/nvidia");
        let wheels = cuda_wheels(tree, &nvidia).into_iter().chain([wanted.wheel.to_owned()]);
        let wheels: Vec<_> = wheels.map(|wheel| format!("{nvidia}/{wheel}/lib")).collect();
        wheels.into_iter().chain([format!("{packages}/torch/lib")])
    });
    let folders: Vec<_> = packages.chain(toolkits(tree)).collect();
    let mut files: Vec<PathBuf> = names.collect();
    for file in folders.iter().flat_map(|folder| inside(wanted, &tree.place(Path::new(folder)))) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The library's files in a folder, newest first: its name with or without a version, and no other library's.
fn inside(wanted: &Wanted, folder: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(wanted.stem)?;
            let version = rest.strip_prefix('.').unwrap_or(rest);
            let numbers = version.split('.').filter(|number| !number.is_empty()).map(|number| number.parse().ok());
            Some((numbers.collect::<Option<Vec<u32>>>()?, entry.path()))
        })
        .collect();
    // Of the same library, the link with the shortest name is as good as any; the plain name is the last resort.
    found.sort_by(|(one, _), (other, _)| {
        let newest_first = other.first().cmp(&one.first());
        newest_first.then(one.len().cmp(&other.len())).then_with(|| other.cmp(one))
    });
    found.into_iter().map(|(_, file)| file).collect()
}

/// Folders that Python packages may lie in, the active environment's first.
fn python_folders(tree: &HostTree) -> Vec<String> {
    let path =
        |variable: &str| tree.variable(variable).unwrap_or_default().split(':').filter(|part| part.starts_with('/'));
    let mut prefixes: Vec<String> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().flat_map(path).map(str::to_owned).collect();
    // The environment that `python3` belongs to, as its place in PATH tells, and the one that it links to.
    for folder in path("PATH") {
        let python = tree.place(Path::new(folder)).join("python3");
        let real = std::fs::canonicalize(&python).ok();
        let prefix = |file: &Path| file.parent().and_then(Path::parent).map(|prefix| tree.shown(prefix));
        prefixes.extend(real.iter().flat_map(|real| [prefix(&python), prefix(real)]).flatten());
    }
    prefixes.extend(tree.variable("HOME").map(|home| format!("{home}/.local")));
    prefixes.extend(["/usr/local", "/usr", "/opt/conda", "/opt/venv"].map(str::to_owned));
    let mut folders: Vec<String> = path("PYTHONPATH").map(|folder| folder.trim_end_matches('/').to_owned()).collect();
    for prefix in prefixes {
        let prefix = prefix.trim_end_matches('/');
        for version in tree.entries(&format!("{prefix}/lib")).iter().rev().filter(|name| name.starts_with("python3")) {
            folders.extend(["site-packages", "dist-packages"].map(|kind| format!("{prefix}/lib/{version}/{kind}")));
        }
    }
    let mut different = Vec::new();
    for folder in folders {
        if !different.contains(&folder) && tree.has(&folder) {
            different.push(folder);
        }
    }
    different
}

/// The folders of CUDA's wheels since 13, newest first: `cu13`.
fn cuda_wheels(tree: &HostTree, nvidia: &str) -> Vec<String> {
    let number = |name: String| name.strip_prefix("cu")?.parse::<u32>().ok();
    let mut numbers: Vec<_> = tree.entries(nvidia).into_iter().filter_map(number).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.into_iter().map(|number| format!("cu{number}")).collect()
}

/// Library folders of toolkits: the one that `cuda` stands for, then the others, newest first.
fn toolkits(tree: &HostTree) -> Vec<String> {
    let version = |name: &String| -> Option<Vec<u32>> {
        name.strip_prefix("cuda-")?.split('.').map(|number| number.parse().ok()).collect()
    };
    let mut others: Vec<_> =
        tree.entries("usr/local").into_iter().filter_map(|name| Some((version(&name)?, name))).collect();
    others.sort_by(|one, other| other.cmp(one));
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| tree.variable(name)).map(str::to_owned);
    let all = homes
        .chain(["/usr/local/cuda".to_owned()])
        .chain(others.into_iter().map(|(_, name)| format!("/usr/local/{name}")));
    all.map(|toolkit| format!("{toolkit}/lib64")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const NVRTC: Wanted =
        Wanted { stem: "libnvrtc.so", versions: &["13", "12"], wheel: "cuda_nvrtc", variable: "RUNGWISE_NVRTC" };

    struct Made(tempfile::TempDir, BTreeMap<String, String>);

    impl Made {
        fn new(files: &[&str]) -> Self {
            let made = Self(tempfile::tempdir().expect("a folder"), BTreeMap::new());
            for file in files {
                let place = made.0.path().join(file);
                fs::create_dir_all(place.parent().expect("in a folder")).expect("writable");
                fs::write(place, "").expect("writable");
            }
            made
        }

        fn with(mut self, name: &str, value: &str) -> Self {
            self.1.insert(name.to_owned(), value.to_owned());
            self
        }

        /// What is tried, in order, if nothing will do.
        fn tried(&self, named: Option<&Path>) -> Vec<String> {
            let tree = HostTree::below(self.0.path(), self.1.clone());
            let refused = first::<()>(&NVRTC, named, &tree, |_| Err("no".to_owned())).unwrap_err();
            let shown =
                |tried: Tried| tried.file.strip_prefix(self.0.path()).unwrap_or(&tried.file).display().to_string();
            refused.into_iter().map(shown).collect()
        }
    }

    #[test]
    fn the_loader_goes_first_then_packages_then_toolkits() {
        let made = Made::new(&[
            "home/a/env/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "home/a/env/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "home/a/env/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "home/a/env/lib/python3.12/site-packages/torch/lib/libtorch.so",
            "home/a/.local/lib/python3.10/site-packages/torch/lib/libnvrtc.so.11.2",
            "usr/lib/python3.9/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "usr/local/cuda-12.4/lib64/libnvrtc.so",
            "usr/local/cuda-12.4/lib64/libnvrtc.so.12",
            "usr/local/cuda-12.4/lib64/libnvrtc.so.12.4.127",
            "usr/local/cuda-13.0/lib64/libnvrtc.so.13",
            "usr/local/cuda-9.0/lib64/libcudart.so.9",
        ]);
        let made = made.with("VIRTUAL_ENV", "/home/a/env").with("HOME", "/home/a");
        insta::assert_snapshot!(made.tried(None).join("\n"), @r"
        libnvrtc.so.13
        libnvrtc.so.12
        home/a/env/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13
        home/a/env/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
        home/a/.local/lib/python3.10/site-packages/torch/lib/libnvrtc.so.11.2
        usr/lib/python3.9/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
        usr/local/cuda-13.0/lib64/libnvrtc.so.13
        usr/local/cuda-12.4/lib64/libnvrtc.so.12
        usr/local/cuda-12.4/lib64/libnvrtc.so.12.4.127
        usr/local/cuda-12.4/lib64/libnvrtc.so
        ");
    }

    #[test]
    fn an_interpreter_in_path_tells_its_environment() {
        let made = Made::new(&[
            "opt/py/bin/python3.11",
            "opt/py/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "srv/env/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
        ]);
        let root = made.0.path().canonicalize().expect("there");
        fs::create_dir_all(root.join("srv/env/bin")).expect("writable");
        symlink(root.join("opt/py/bin/python3.11"), root.join("srv/env/bin/python3")).expect("writable");
        let made = made.with("PATH", "/nowhere:relative:/srv/env/bin");
        assert_eq!(
            made.tried(None)[2..],
            [
                "srv/env/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
                "opt/py/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            ]
        );
    }

    #[test]
    fn a_library_that_is_named_is_the_only_one_tried() {
        let made = Made::new(&["a/libnvrtc.so.12", "a/libnvrtc.so.13", "a/libnvrtc.alt.so.13", "b/other"]);
        let (folder, empty) = (made.0.path().join("a"), made.0.path().join("b"));
        assert_eq!(made.tried(Some(&folder)), ["a/libnvrtc.so.13", "a/libnvrtc.so.12"]);
        assert_eq!(made.tried(Some(&empty)), ["b"]);
        assert_eq!(made.tried(Some(Path::new("/no/such/libnvrtc.so.12"))), ["/no/such/libnvrtc.so.12"]);
        let by_variable = made.with("RUNGWISE_NVRTC", "/from/the/environment.so");
        assert_eq!(by_variable.tried(None), ["/from/the/environment.so"]);
        assert_eq!(by_variable.tried(Some(&folder)).len(), 2, "the caller's name goes first");
    }

    /// The loader would look for a bare name in its own places only. Tests run in the package's folder.
    #[test]
    fn a_bare_name_is_a_file_here_if_there_is_one() {
        let made = Made::new(&[]);
        assert_eq!(made.tried(Some(Path::new("Cargo.toml"))), ["./Cargo.toml"]);
        assert_eq!(made.tried(Some(Path::new("libnvrtc.so.12"))), ["libnvrtc.so.12"]);
    }

    #[test]
    fn the_first_that_opens_is_taken() {
        let tree = HostTree::below("/nowhere", BTreeMap::new());
        let opened = first(&NVRTC, None, &tree, |file| match file.to_str() {
            Some("libnvrtc.so.12") => Ok(file.to_path_buf()),
            _ => Err("no".to_owned()),
        });
        assert_eq!(opened, Ok(PathBuf::from("libnvrtc.so.12")));
    }
}
