//! What prices a run: the kernel tables of its card, model and ranks, or, where there are none, its own series.
//!
//! The rule where a card has its own dense table alone: LM head, sampler and attention of another card's tables of the same
//! model and ranks, times the ratio of their memory bandwidths, because both read weights and KV at the rate of the memory.
//! That is the ratio of the data sheets. What each card reaches of its own shows in the dense tables, where a few rows cost
//! what reading the weights takes: their ratio is the second answer, [`Carry::Achieved`].

use std::path::{Path, PathBuf};

use calibrate::profile::{Curve, Group, Kind, Profile, Provenance};
use kernels::geometry::ModelGeometry;

use super::ValidateError;
use super::cards::{CARDS, card_of, card_of_device};
use super::filed;
use super::outcome::percentile;
use super::run::Meta;
use crate::engine::vllm::attention::ComputeCapability;
use crate::fit::tables::llmservingsim;
use crate::fit::tables::sheet::Sheet;
use crate::fit::{FitError, Source};

/// The built-in profile whose planning figures stand in for what kernel tables do not hold: launches, replays, host work.
const PLANNED: &str = "rtx4090-llama-3.1-8b";

/// What prices a run, and where each part comes from.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The profile.
    pub profile: Profile,
    /// A part of a step and where its price comes from.
    pub parts: Vec<(&'static str, String)>,
    /// The card, model and ranks whose tables were carried over, if any were.
    pub lender: Option<String>,
}

/// By what the tables of another card are carried over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carry {
    /// The ratio of both cards' bandwidths on their data sheets.
    DataSheet,
    /// The ratio of both cards' dense times where they are those of reading the weights.
    Achieved,
    /// A ratio that the user gives.
    Given(f64),
}

impl Carry {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::DataSheet => "the bandwidths of both data sheets",
            Self::Achieved => "the bandwidths that both dense tables achieve",
            Self::Given(_) => "the ratio of bandwidths given",
        }
    }
}

/// Rows up to which a dense table is that of reading the weights: one tile of every product.
const READING_ROWS: f64 = 16.0;

/// A table of the folder, of the run's own card or of another.
struct Borrowed {
    path: PathBuf,
    /// The card that it was measured on.
    from: String,
    /// By what its times are multiplied.
    factor: f64,
    is_own: bool,
}

impl Costs {
    /// The costs of a run by the tables in `folder`; `None` where there is no dense table of its card, model and ranks.
    /// `geometry` is that of a model that is not built in.
    ///
    /// # Errors
    /// A table cannot be read, there is none to borrow, or the model's or a card's figures are not known.
    pub fn of_tables(
        folder: &Path,
        run: &str,
        meta: &Meta,
        geometry: Option<&ModelGeometry>,
        carry: Carry,
    ) -> Result<Option<Self>, ValidateError> {
        let Some(filed) = filed::tables_of(folder, run, meta)? else { return Ok(None) };
        let path = folder.join(format!("kernels_{filed}_dense.csv"));
        let shown = path.display().to_string();
        let Some(model) = ModelGeometry::preset(&meta.model).or_else(|| geometry.cloned()) else {
            let problem = format!("the geometry of {} is not known", meta.model);
            let known = kernels::geometry::PRESETS.join(", ");
            let help = format!("give --model with the model's config.json; known without it are {known}");
            return Err(ValidateError::file(&shown, problem, help));
        };
        let ranks = meta.engine_kwargs.tensor_parallel_size.unwrap_or(1);
        let layers = model.layers;
        let mut profile = Profile::builtin(PLANNED).expect("the profile is built in");
        let own = if filed == run { "its own table".to_owned() } else { format!("the table of {filed}") };
        let mut parts = vec![("dense", format!("{own}, {layers} layers"))];
        let dense = llmservingsim::dense(&sheet(&path)?, layers)?;
        let tables = Tables { folder, run: &filed, layers, dense: &dense };
        let (head, attention) = (tables.find("per_sequence", carry)?, tables.find("attention", carry)?);
        let lender = [&head, &attention].into_iter().find(|table| !table.is_own).map(|table| table.from.clone());
        profile.machine.dense = imported(dense.clone(), &filed, "dense", None);
        let curve = llmservingsim::head(&sheet(&head.path)?, head.factor)?;
        profile.machine.head = imported(curve, &head.from, "per_sequence", head.scaling());
        parts.push(("LM head and sampler", head.words(&own)));
        let figures = llmservingsim::attention(&sheet(&attention.path)?, layers, attention.factor)?;
        parts.push((
            if figures.mixed.is_some() { "attention, mixed steps in one kernel" } else { "attention" },
            attention.words(&own),
        ));
        profile.engine.attention = Some(imported(figures, &attention.from, "attention", attention.scaling()));
        parts.push(("host work, launches", format!("planning figures of the profile {PLANNED}")));
        profile.identity.model = model;
        profile.identity.model_name.clone_from(&meta.model);
        profile.identity.device = device(run, meta);
        profile.identity.engine_version = Some(meta.vllm_version.clone());
        profile.name = format!("kernels_{filed}");
        if ranks > 1 {
            parts.push(("communication of ranks", format!("not priced: {ranks} ranks are simulated as one")));
        }
        Ok(Some(Self { profile, parts, lender }))
    }
}

/// The compute capability of the device that a run was made on: as recorded, or that of its card.
#[must_use]
pub fn capability(run: &str, meta: &Meta) -> Option<ComputeCapability> {
    let hardware = meta.hardware.as_ref();
    let recorded = hardware.and_then(|hardware| hardware.device_capability.as_ref()?.parse().ok());
    let named = || hardware.and_then(|hardware| card_of_device(&hardware.device_name)).or_else(|| card_of(run));
    recorded.or_else(|| named().map(|card| card.capability))
}

/// The device that a run was made on, as well as the folder says it.
#[must_use]
pub fn device(run: &str, meta: &Meta) -> String {
    let recorded = meta.hardware.as_ref().map(|hardware| hardware.device_name.clone());
    let filed = || card_of(run).map(|card| card.name.to_owned());
    recorded.or_else(filed).unwrap_or_else(|| run.split('_').next().unwrap_or(run).to_owned())
}

impl Borrowed {
    fn scaling(&self) -> Option<f64> {
        (!self.is_own).then_some(self.factor)
    }

    /// Where it comes from; `own` are the words for a table of the run's own card.
    fn words(&self, own: &str) -> String {
        match self.scaling() {
            None => own.to_owned(),
            Some(factor) => format!("the table of {}, times the ratio of bandwidths {factor:.4}", self.from),
        }
    }
}

/// The tables of a folder, as a run sees them.
struct Tables<'a> {
    folder: &'a Path,
    /// Under which name those of the run's card, model and ranks are filed.
    run: &'a str,
    layers: u32,
    /// Of the run's own card.
    dense: &'a Curve,
}

impl Tables<'_> {
    fn file(&self, of: &str, part: &str) -> PathBuf {
        self.folder.join(format!("kernels_{of}_{part}.csv"))
    }

    /// The run's own table of a part, or that of another card with the same model and ranks.
    fn find(&self, part: &str, carry: Carry) -> Result<Borrowed, ValidateError> {
        let own = self.file(self.run, part);
        if own.is_file() {
            return Ok(Borrowed { path: own, from: self.run.to_owned(), factor: 1.0, is_own: true });
        }
        let (short, rest) = self.run.split_once('_').unwrap_or((self.run, ""));
        let others = CARDS.iter().map(|card| format!("{}_{rest}", card.short)).filter(|other| other != self.run);
        let own = own.display().to_string();
        let Some(from) = others.into_iter().find(|other| self.file(other, part).is_file()) else {
            let problem = "not there, and no other card's table of this model to carry over";
            return Err(ValidateError::file(&own, problem, "put the table into the folder"));
        };
        let bandwidth = |of: &str| card_of(of).map(|card| card.bandwidth_gb_per_s);
        let factor = match carry {
            Carry::Given(ratio) => Some(ratio),
            Carry::DataSheet => bandwidth(&from).zip(bandwidth(self.run)).map(|(lender, own)| lender / own),
            Carry::Achieved => self.achieved(&from)?,
        };
        let Some(factor) = factor else {
            let problem =
                format!("{short} is not known, nor {} by which the table of {from} is carried over", carry.words());
            let help = "give --bandwidth-ratio: the lending card's memory bandwidth over this one's";
            return Err(ValidateError::file(&own, problem, help));
        };
        Ok(Borrowed { path: self.file(&from, part), from, factor, is_own: false })
    }

    /// The median of the own dense times over the lender's where both are those of reading the weights; `None` where the
    /// lender has no dense table.
    fn achieved(&self, lender: &str) -> Result<Option<f64>, ValidateError> {
        let file = self.file(lender, "dense");
        if !file.is_file() {
            return Ok(None);
        }
        let Curve::Table(own) = self.dense else { return Ok(None) };
        let theirs = llmservingsim::dense(&sheet(&file)?, self.layers)?;
        let rows = own.x().iter().zip(own.y()).take_while(|(rows, _)| **rows <= READING_ROWS);
        let ratios: Vec<f64> = rows.map(|(&rows, us)| us / theirs.at(rows).value).collect();
        Ok(percentile(&ratios, 0.5))
    }
}

fn sheet(path: &Path) -> Result<Sheet, FitError> {
    Sheet::read(&Source::read(path)?)
}

/// Figures of a table, with where they come from.
fn imported<T>(figures: T, from: &str, part: &str, factor: Option<f64>) -> Group<T> {
    let method = "operations of one layer times the layers".to_owned();
    Group {
        figures,
        provenance: Provenance {
            kind: if factor.is_some() { Kind::Derived } else { Kind::Imported },
            source: format!("kernels_{from}_{part}.csv"),
            licence: None,
            method: Some(factor.map_or(method.clone(), |factor| format!("{method}, times {factor}"))),
            valid: None,
            range: None,
        },
        measured: None,
    }
}
