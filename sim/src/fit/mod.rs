//! Costs in: measured tables and an engine's own logs, as a cost profile.
//!
//! ```text
//! tables ─► parts ─► completed (what no table gives is planned, and says so) ─► profile
//! ```

pub mod completed;
pub mod error;
pub mod measured_step;
pub mod onto;
pub mod source;
pub mod tables;

pub use error::FitError;
pub use source::Source;

use calibrate::profile::{DispatchCost, Group, Profile};
use calibrate::served_model::ServedModel;

use completed::Request;
use measured_step::MeasuredStep;
use onto::{Onto, StepFile};
use tables::{LaunchGap, Table, TableKind, composed, whole_steps};

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
}

/// Makes a profile of tables.
///
/// # Errors
/// Tables that do not fit together or to the model, or no dense work among them.
pub fn of_tables(read: &[Read], request: &Request<'_>, licence: &str) -> Result<Fitted, FitError> {
    let tables: Vec<Table> = read.iter().map(|read| read.table.clone()).collect();
    let model = completed::model(request, &tables)?;
    let mut parts = composed::parts(read, &model.geometry, licence)?;
    let steps =
        read.iter().filter_map(|read| if let Table::Steps(steps) = &read.table { Some((read, steps)) } else { None });
    for (read, steps) in steps {
        if parts.dense.is_some() {
            let help = "give either tables of operations or one file of steps; steps beside a profile go to --onto";
            return Err(FitError::file(&read.source.file, "whole steps beside another table of the dense work", help));
        }
        parts = whole_steps::parts(&read.source, steps, &model.geometry)?;
    }
    let launch_gap = parts.launch_gap;
    let mut profile = completed::profile(request, &model, parts)?;
    if let Some((read, steps)) = steps_of(read) {
        profile.engine.dispatch = launches_of(&profile, &read.source, steps)?;
    }
    Ok(Fitted { profile, ranks: model.ranks, model, launch_gap })
}

fn steps_of(read: &[Read]) -> Option<(&Read, &Vec<MeasuredStep>)> {
    read.iter().find_map(|read| if let Table::Steps(steps) = &read.table { Some((read, steps)) } else { None })
}

/// What launches cost in the steps that ran another way than those that the profile is made of, beside which they show.
fn launches_of(profile: &Profile, source: &Source, steps: &[MeasuredStep]) -> Result<Group<DispatchCost>, FitError> {
    let file = StepFile { file: source.file.clone(), sha256: source.sha256.clone(), steps: steps.to_vec() };
    let onto = Onto { profile, server: None, asynchronous: true };
    Ok(onto::fit(&onto, &[file], &[])?.profile.engine.dispatch)
}

#[cfg(test)]
mod tests;
