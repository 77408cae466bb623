//! The model whose shapes are measured: a preset by name, or what a Hugging Face `config.json` describes; whole, or what
//! one tensor-parallel rank holds of it.

mod config_json;
mod shard;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kernels::geometry::{GeometryError, ModelGeometry, PRESETS, preset_name};
use kernels::step::Constants;
use miette::Diagnostic;

pub use config_json::ConfigError;
pub use shard::ShardError;
pub(crate) use shard::rank_of;

use crate::spelling::closest;
use crate::stderr::printable;

/// Elements of a vector that the kernels load at once: widths are multiples of it.
const VECTOR: u32 = 8;
/// The most query heads of one KV head that decode attention takes.
const GROUP_MAX: u32 = 16;

/// The preset that is measured where none is named.
pub const DEFAULT_MODEL: &str = "llama-3.1-8b";

/// A model as it is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedModel {
    /// Its name, for files and readers.
    pub name: String,
    /// Its shapes; those of one rank where it is sharded.
    pub geometry: ModelGeometry,
    /// What its configuration says beside them.
    pub constants: Constants,
    /// Tensor-parallel ranks that it is sharded over.
    pub ranks: u32,
    /// How the model differs from what is measured in its place; empty unless only its shapes are.
    pub differs: Vec<String>,
}

/// Why a model cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Neither a preset nor a file.
    #[error("no preset and no file is called `{}`", printable(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    #[error("cannot read the model configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file describes no model that can be measured.
    #[error("{}: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: ConfigError,
    },
    /// Numbers that no model has, or that the kernels do not take.
    #[error("model {}: {problem}", printable(name))]
    Geometry {
        /// The model.
        name: String,
        /// The number at fault.
        problem: GeometryError,
    },
    /// It cannot be divided among so many ranks.
    #[error("model {}: {problem}", printable(name))]
    Shard {
        /// The model.
        name: String,
        /// The number that does not divide.
        problem: ShardError,
    },
}

impl Diagnostic for ModelError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let presets = PRESETS.join(", ");
        let help = match self {
            Self::Unknown { name } => match closest(name, &PRESETS) {
                Some(preset) => format!("did you mean {preset}? (the presets are {presets})"),
                None => format!("name a preset ({presets}), or the path of the model's config.json"),
            },
            Self::Read { .. } => "check the path and its permissions".to_owned(),
            Self::Config { problem, .. } => problem.help().to_owned(),
            Self::Geometry { .. } => "correct the configuration, or measure a model of similar shapes".to_owned(),
            Self::Shard { .. } => {
                "give the number of ranks that the server will have; engines refuse to divide unevenly too".to_owned()
            }
        };
        Some(Box::new(help))
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ModelRequest<'a> {
    /// A preset, the path of a `config.json`, or that of the folder that holds one.
    pub name: &'a str,
    /// Tensor-parallel ranks.
    pub ranks: u32,
    /// Whether the shapes of a model that the kernels do not compute may be measured in its place.
    pub shapes_only: bool,
}

impl ServedModel {
    /// Finds the model and divides it among its ranks.
    ///
    /// # Errors
    /// [`ModelError`] says which of its numbers or properties stands in the way.
    pub fn find(request: &ModelRequest<'_>) -> Result<Self, ModelError> {
        let mut model = match preset_name(request.name) {
            Some(preset) => Self::preset(preset).expect("every preset has a geometry and constants"),
            None => Self::from_file(request)?,
        };
        let shard = rank_of(&model.geometry, request.ranks);
        let shape = shard.map_err(|problem| ModelError::Shard { name: model.name.clone(), problem })?;
        let geometry = ModelGeometry::new(shape).and_then(takeable);
        model.geometry = geometry.map_err(|problem| ModelError::Geometry { name: model.name.clone(), problem })?;
        model.ranks = request.ranks;
        Ok(model)
    }

    fn preset(name: &str) -> Option<Self> {
        let (geometry, constants) = (ModelGeometry::preset(name)?, Constants::preset(name)?);
        Some(Self { name: name.to_owned(), geometry, constants, ranks: 1, differs: Vec::new() })
    }

    fn from_file(request: &ModelRequest<'_>) -> Result<Self, ModelError> {
        let mut path = PathBuf::from(request.name);
        if path.is_dir() {
            path.push("config.json");
        }
        let names_a_file = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if !names_a_file && !path.exists() {
            return Err(ModelError::Unknown { name: request.name.to_owned() });
        }
        let text = fs::read_to_string(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
        let wrong = |problem| ModelError::Config { path: path.clone(), problem };
        let described = config_json::read(&text, request.shapes_only).map_err(wrong)?;
        let name = described.name.clone().or_else(|| folder_name(&path)).unwrap_or_else(|| "config.json".to_owned());
        let geometry = ModelGeometry::new(described.shape);
        let geometry = geometry.map_err(|problem| ModelError::Geometry { name: name.clone(), problem })?;
        Ok(Self { name, geometry, constants: described.constants, ranks: 1, differs: described.differs })
    }
}

/// The folder of a `config.json` is called after the model; a file of another name is itself.
fn folder_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    if stem != "config" {
        return Some(stem);
    }
    let folder = path.canonicalize().ok()?.parent()?.file_name()?.to_string_lossy().into_owned();
    Some(folder)
}

/// What the kernels need beyond a valid geometry: whole vectors, a head size, and not too many queries for a key.
fn takeable(geometry: ModelGeometry) -> Result<ModelGeometry, GeometryError> {
    let refuse = |key, value, expected: String| Err(GeometryError { key, value, expected });
    if !matches!(geometry.head_size, 64 | 128) {
        return refuse("head_size", geometry.head_size, "64 or 128: the kernels have no other".into());
    }
    for (key, value) in [("hidden", geometry.hidden), ("intermediate", geometry.intermediate)] {
        if !value.is_multiple_of(VECTOR) {
            return refuse(key, value, format!("a multiple of {VECTOR}: the kernels load whole vectors"));
        }
    }
    if geometry.query_heads / geometry.kv_heads > GROUP_MAX {
        let expected = format!("at most {GROUP_MAX} for each of {} KV heads", geometry.kv_heads);
        return refuse("query_heads", geometry.query_heads, expected);
    }
    Ok(geometry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str) -> ModelRequest<'_> {
        ModelRequest { name, ranks: 1, shapes_only: false }
    }

    #[test]
    fn every_preset_can_be_measured() {
        for name in PRESETS {
            let model = ServedModel::find(&request(name)).unwrap();
            assert_eq!((model.name.as_str(), model.ranks), (name, 1));
            assert_eq!(Some(model.geometry), ModelGeometry::preset(name));
        }
        assert!(ServedModel::find(&request(DEFAULT_MODEL)).is_ok());
        let publishers = ServedModel::find(&request("Qwen/Qwen3-8B")).unwrap();
        assert_eq!((publishers.name.as_str(), publishers.constants.rotary_base), ("qwen3-8b", 1e6));
    }

    #[test]
    fn names_that_are_nothing_get_the_list() {
        let error = ServedModel::find(&request("lama-3.1-8b")).unwrap_err();
        assert_eq!(error.to_string(), "no preset and no file is called `lama-3.1-8b`");
        assert!(
            error.help().unwrap().to_string().starts_with("did you mean llama-3.1-8b? (the presets are llama-2-7b,")
        );
        let missing = ServedModel::find(&request("no/such/config.json")).unwrap_err();
        assert!(matches!(missing, ModelError::Read { .. }), "{missing}");
    }

    #[test]
    fn a_file_names_the_model_by_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("My-Model-7B");
        fs::create_dir(&model).unwrap();
        fs::write(model.join("config.json"), config_json::tests::LLAMA).unwrap();
        let found = ServedModel::find(&request(model.to_str().unwrap())).unwrap();
        assert_eq!((found.name.as_str(), found.geometry.layers), ("My-Model-7B", 32));
    }

    #[test]
    fn shards_that_the_kernels_do_not_take_are_refused_before_anything_runs() {
        let refused = |name, ranks| {
            let error = ServedModel::find(&ModelRequest { ranks, ..request(name) }).unwrap_err();
            error.to_string()
        };
        assert_eq!(refused("llama-2-70b", 3), "model llama-2-70b: KV heads = 8: cannot be divided among 3 ranks");
        assert_eq!(
            refused("llama-2-13b", 40),
            "model llama-2-13b: MLP width = 13824: cannot be divided among 40 ranks"
        );
    }
}
