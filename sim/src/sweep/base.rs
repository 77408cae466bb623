//! The scenario that is varied, and the scenario of one point.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use calibrate::profile::{BUILTIN, Profile, ProfileError};
use reports::SweptFile;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::error::FolderError;
use super::grid::Grid;
use super::key::Key;
use crate::record;
use crate::scenario::{ProfileSource, Scenario, ScenarioError};

/// A scenario before any point sets anything.
#[derive(Clone, Debug)]
pub struct Base {
    table: Table,
    text: String,
    file: String,
    folder: PathBuf,
    /// The profile of the command line, by name or path.
    profile: Option<String>,
}

/// The scenario of one point.
#[derive(Clone, Debug)]
pub struct PointScenario {
    table: Table,
    /// Its profile by the name or path that was given; a path is not yet joined to a folder.
    pub profile_name: Option<String>,
}

impl Base {
    /// Reads a scenario, with another profile if one is named. The scenario is checked point by point, not here.
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML.
    pub fn load(path: &Path, profile: Option<&str>) -> Result<Self, ScenarioError> {
        let (text, file) = Scenario::read_file(path)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let table = match toml::from_str(&text) {
            Ok(table) => table,
            // In the words, and at the place, that every command gives.
            Err(error) => return Err(Scenario::not_toml(&text, &file, &error)),
        };
        Ok(Self { table, text, file, folder, profile: profile.map(str::to_owned) })
    }

    /// The scenario as TOML.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The file as named by the user, for messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The scenario as it is in the file, checked.
    ///
    /// # Errors
    /// Whatever is wrong with it, at its line.
    pub fn unvaried(&self) -> Result<Scenario, ScenarioError> {
        Scenario::parse(&self.text, &self.file, &self.folder)
    }

    /// The scenario with the values of one point.
    ///
    /// # Errors
    /// A value that cannot be set where its key says, in words.
    pub fn point(&self, settings: &[(&Key, &Value)]) -> Result<PointScenario, String> {
        let mut point = PointScenario { table: self.table.clone(), profile_name: None };
        // What is expected is expected of the scenario as it is.
        point.table.remove("expect");
        if let Some(profile) = &self.profile {
            point.name_profile(profile);
        }
        for (key, value) in settings {
            match value.as_str() {
                Some(profile) if key.is_profile() => point.name_profile(profile),
                _ => key.set(&mut point.table, value).map_err(|problem| format!("{key}: {problem}"))?,
            }
        }
        Ok(point)
    }

    /// Checks the scenario of a point. Relative paths in it start at the scenario's folder.
    ///
    /// # Errors
    /// As [`Scenario::parse`]; the place is one in the point's own text, which no file holds.
    pub fn parse(&self, point: &PointScenario) -> Result<Scenario, ScenarioError> {
        let text = toml::to_string(&point.table).expect("a table of TOML is TOML");
        let mut scenario = Scenario::parse(&text, &self.file, &self.folder)?;
        for warning in &mut scenario.warnings {
            *warning = self.without_place(warning).to_owned();
        }
        Ok(scenario)
    }

    /// A message without the line in front of it: it would be one of a text that no file holds.
    #[must_use]
    pub fn without_place<'message>(&self, message: &'message str) -> &'message str {
        let after_line = message.strip_prefix(&self.file).and_then(|rest| rest.strip_prefix(':')).and_then(|rest| {
            let (line, rest) = rest.split_once(": ")?;
            line.parse::<usize>().ok().map(|_| rest)
        });
        after_line.unwrap_or(message)
    }

    /// The scenario's own name and the hash of its file.
    #[must_use]
    pub fn identity(&self, name: &str) -> SweptFile {
        SweptFile { name: name.to_owned(), sha256: record::sha256(self.text.as_bytes()) }
    }

    /// Every profile that points are priced with, in the order in which they come up.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn profiles(&self, grid: &Grid) -> Result<Vec<SweptFile>, ProfileError> {
        let mut found: Vec<SweptFile> = Vec::new();
        for point in grid.each_value().iter().filter_map(|settings| self.point(settings).ok()) {
            let Some((name, source)) = self.profile(&point) else { continue };
            if found.iter().all(|known| known.name != name) {
                let profile: Profile = source.open()?;
                found.push(SweptFile { name, sha256: record::sha256(profile.to_toml().as_bytes()) });
            }
        }
        Ok(found)
    }

    fn profile(&self, point: &PointScenario) -> Option<(String, ProfileSource)> {
        let profile = point.table.get("profile")?;
        let word = |key: &str| profile.get(key).and_then(Value::as_str);
        let source = match (word("builtin"), word("file")) {
            (Some(name), _) => ProfileSource::Builtin(name.to_owned()),
            (None, Some(file)) => ProfileSource::File(self.folder.join(file)),
            (None, None) => return None,
        };
        let name = point.profile_name.clone().or_else(|| word("builtin").or(word("file")).map(str::to_owned));
        Some((name?, source))
    }

    /// Every recorded trace that points play, in the order in which they come up.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn traces(&self, grid: &Grid) -> Result<Vec<SweptFile>, FolderError> {
        let mut found: Vec<SweptFile> = Vec::new();
        for point in grid.each_value().iter().filter_map(|settings| self.point(settings).ok()) {
            let mut files = Vec::new();
            trace_files(point.table.get("traffic"), &mut files);
            for name in files {
                if found.iter().all(|known| known.name != name) {
                    let sha256 = file_sha256(&self.folder.join(&name)).map_err(|error| {
                        FolderError::new(
                            format!("cannot read the trace {name}: {error}"),
                            "check its path in the scenario",
                        )
                    })?;
                    found.push(SweptFile { name, sha256 });
                }
            }
        }
        Ok(found)
    }
}

impl PointScenario {
    /// Takes the profile that a built-in name or a path, from the current folder, names.
    fn name_profile(&mut self, given: &str) {
        let path = Path::new(given);
        // A bare word that is no file is a misspelt name, as for `--profile`.
        let is_bare = path.components().count() == 1 && path.extension().is_none_or(|end| end != "toml");
        let (key, word) = if BUILTIN.contains(&given) || (is_bare && !path.exists()) {
            ("builtin", given.to_owned())
        } else {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            ("file", path.to_string_lossy().into_owned())
        };
        let table = Table::from_iter([(key.to_owned(), Value::String(word))]);
        self.table.insert("profile".to_owned(), Value::Table(table));
        self.profile_name = Some(given.to_owned());
    }
}

/// The files that any table below names under `file`.
fn trace_files(value: Option<&Value>, found: &mut Vec<String>) {
    match value {
        Some(Value::Table(table)) => {
            for (key, value) in table {
                match value.as_str() {
                    Some(file) if key == "file" => found.push(file.to_owned()),
                    _ => trace_files(Some(value), found),
                }
            }
        }
        Some(Value::Array(items)) => items.iter().for_each(|item| trace_files(Some(item), found)),
        _ => {}
    }
}

fn file_sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(record::hexadecimal(&hash.finalize())),
            bytes => hash.update(&block[..bytes]),
        }
    }
}
