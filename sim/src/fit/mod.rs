//! Costs in: measured tables and an engine's own logs, as a cost profile.
//!
//! ```text
//! tables ─► parts ─► completed (what no table gives is planned, and says so) ─► profile
//! ```

pub mod completed;
pub mod error;
pub mod launches;
pub mod measured_step;
pub mod onto;
pub mod source;
pub mod tables;

pub use error::FitError;
pub use source::Source;

use calibrate::profile::Profile;
use calibrate::served_model::ServedModel;

use completed::Request;
use launches::Launches;
use tables::{LaunchGap, Table, TableKind, composed, soundness, whole_steps};

/// A file and what it holds.
#[derive(Clone, Debug)]
pub struct Read {
    /// The file.
    pub source: Source,
    /// The table in it.
    pub table: Table,
}

impl Read {
    /// Reads a file of a kind, or of the kind that it looks like.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn table(source: Source, kind: Option<TableKind>, ranks: Option<u32>) -> Result<Self, FitError> {
        let table = Table::read(&source, kind, ranks)?;
        Ok(Self { source, table })
    }
}

/// A profile of tables, with what else they say.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// The model that it is about.
    pub model: ServedModel,
    /// Tensor-parallel ranks of which it has the costs of one.
    pub ranks: u32,
    /// What launching an operation alone costs at most, where two tables tell.
    pub launch_gap: Option<LaunchGap>,
    /// What steps without a graph say of launches, where the table is one of steps.
    pub launches: Option<Launches>,
    /// The profile before they said it.
    pub planned: Profile,
    /// What no device is likely to have.
    pub doubts: Vec<String>,
}

/// Makes a profile of tables.
///
/// # Errors
/// Tables that do not fit together or to the model, or no dense work among them.
pub fn of_tables(read: &[Read], request: &Request<'_>, licence: &str) -> Result<Fitted, FitError> {
    let tables: Vec<Table> = read.iter().map(|read| read.table.clone()).collect();
    let model = completed::model(request, &tables)?;
    let mut parts = composed::parts(read, &model.geometry, licence)?;
    let of_steps =
        read.iter().find_map(|read| if let Table::Steps(steps) = &read.table { Some((read, steps)) } else { None });
    if let Some((read, steps)) = of_steps {
        if tables.len() > 1 {
            return Err(beside_others(read));
        }
        parts = whole_steps::parts(&read.source, steps, &model.geometry)?;
    }
    let (launch_gap, mut doubts) = (parts.launch_gap, std::mem::take(&mut parts.doubts));
    let mut profile = completed::profile(request, &model, parts)?;
    let planned = profile.clone();
    let launches = of_steps.map(|(read, steps)| launches::launches(&mut profile, &read.source, steps)).transpose()?;
    doubts.extend(beyond_memory(&profile, read, &model));
    doubts.extend(launches.iter().flat_map(|launches| launches.doubts.iter().cloned()));
    Ok(Fitted { profile, ranks: model.ranks, model, launch_gap, launches, planned, doubts })
}

/// Says so where the tables are faster than the memory of the device that is named.
fn beyond_memory(profile: &Profile, read: &[Read], model: &ServedModel) -> Option<String> {
    let dense = &profile.machine.dense;
    let bandwidth = &profile.machine.bandwidth.as_ref()?.figures;
    let of_dense = read.iter().find(|read| dense.provenance.source == read.source.cited())?;
    soundness::beyond_memory(&of_dense.source.file, &dense.figures, &model.geometry, bandwidth.read_gb_per_s)
}

fn beside_others(read: &Read) -> FitError {
    let help = "give either tables of operations or one file of steps; steps beside a profile go to --onto";
    FitError::file(&read.source.file, "whole steps beside another table", help)
}

#[cfg(test)]
mod tests;
