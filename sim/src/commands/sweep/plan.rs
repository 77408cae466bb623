//! What a sweep runs, checked before anything runs.

use miette::Diagnostic;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use reports::{SWEEP_SCHEMA, SweepAxis, SweepManifest, SweepSample, SweepSetting, SweepShard};
use toml::Value;

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::super::run::comparison::{check_seeds, seeds};
use super::Arguments;
use crate::server::Setup;
use crate::sweep::{Axis, Base, Environment, Grid, Key, Sample, Shard};

/// Points that can all be run.
#[derive(Debug)]
pub(super) struct Plan {
    base: Base,
    grid: Grid,
    /// What the sweep is.
    pub(super) manifest: SweepManifest,
    /// The points that run here, ascending.
    pub(super) numbers: Vec<u64>,
}

impl Plan {
    /// Reads the scenario and what is varied of it, and starts every candidate of every point that runs here as the engine
    /// would.
    ///
    /// # Errors
    /// The first point, in order, that cannot be run; or what is wrong with the sweep as a whole.
    pub(super) fn of(arguments: &Arguments) -> Result<Self, Failure> {
        let shard = arguments.shard.as_deref().map(|text| Shard::read(text, &Environment::of_process())).transpose()?;
        let base = Base::load(&arguments.scenario, arguments.profile.as_deref())?;
        let axes = arguments.vary.iter().map(|text| text.parse::<Axis>()).collect::<Result<Vec<_>, _>>()?;
        let sample = arguments.sample.map(|points| Sample { points, seed: arguments.sample_seed });
        let grid = Grid::new(axes, base.table(), sample)?;
        let numbers = shard.unwrap_or(Shard::WHOLE).points(grid.points());
        let first = inputs(&base, &grid, 0, &arguments.candidates)?;
        let manifest = SweepManifest {
            schema: SWEEP_SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: base.identity(&first.scenario.name),
            profiles: Vec::new(),
            traces: Vec::new(),
            axes: grid.axes().iter().map(|(key, values)| axis(key, values)).collect(),
            sample: sample.map(|sample| SweepSample { points: sample.points, seed: sample.seed }),
            points: grid.points(),
            candidates: first.scenario.candidates.iter().map(|candidate| candidate.name.clone()).collect(),
            seeds: seeds(arguments.seed.unwrap_or(first.scenario.traffic.seed), arguments.seeds),
            shard: shard.map(|shard| SweepShard { index: shard.index, of: shard.of }),
        };
        let plan = Self { base, grid, manifest, numbers };
        let checked: Vec<Result<(), Failure>> = plan.numbers.par_iter().map(|&point| plan.check(point)).collect();
        checked.into_iter().collect::<Result<(), Failure>>()?;
        let (profiles, traces) = (plan.base.profiles(&plan.grid)?, plan.base.traces(&plan.grid)?);
        Ok(Self { manifest: SweepManifest { profiles, traces, ..plan.manifest }, ..plan })
    }

    fn check(&self, point: u64) -> Result<(), Failure> {
        let (inputs, _) = self.prepare(point)?;
        let seeds = self.manifest.seeds.len() as u32;
        let sound = inputs.check_traffic().and_then(|()| check_seeds(seeds, &inputs.scenario));
        sound.map_err(|failure| self.at(point, failure))
    }

    /// The scenario of a point, its profile, and its candidates made ready.
    ///
    /// # Errors
    /// Why the point cannot be run.
    pub(super) fn prepare(&self, point: u64) -> Result<(Inputs, Vec<Setup>), Failure> {
        let inputs = inputs(&self.base, &self.grid, point, &self.manifest.candidates)?;
        let setups = inputs.prepare_all().map_err(|failure| self.at(point, failure))?;
        Ok((inputs, setups))
    }

    /// What the point sets.
    pub(super) fn settings(&self, point: u64) -> Vec<SweepSetting> {
        let settings = self.grid.settings(point).into_iter();
        settings.map(|(key, value)| SweepSetting { key: key.to_string(), value: json(value) }).collect()
    }

    /// A failure, with the point that it is of.
    pub(super) fn at(&self, point: u64, failure: Failure) -> Failure {
        of_point(&self.base, point, &self.grid.settings(point), failure)
    }
}

/// The scenario of a point, and its profile.
fn inputs(base: &Base, grid: &Grid, point: u64, candidates: &[String]) -> Result<Inputs, Failure> {
    let settings = grid.settings(point);
    let failed = |failure| of_point(base, point, &settings, failure);
    let varied = base.point(&settings).map_err(|message| failed(Failure::Point { message, help: None }))?;
    let scenario = match base.parse(&varied) {
        Ok(scenario) => scenario,
        // What is wrong with the file itself is shown there.
        Err(error) => {
            return Err(match base.unvaried() {
                Err(own) if own.to_string() == error.to_string() => own.into(),
                _ => failed(error.into()),
            });
        }
    };
    let mut inputs = Inputs::of(scenario).map_err(failed)?;
    inputs.profile_name = varied.profile_name.unwrap_or(inputs.profile_name);
    inputs.select(candidates)?;
    Ok(inputs)
}

/// What is wrong with a point, in words: the text that an error would point at is in no file.
fn of_point(base: &Base, point: u64, settings: &[(&Key, &Value)], failure: Failure) -> Failure {
    if let Failure::Law { .. } | Failure::Stdout(_) | Failure::Output(_) = failure {
        return failure;
    }
    let help = failure.help().map(|help| help.to_string());
    let mut message = failure.to_string();
    let mut cause = std::error::Error::source(&failure);
    while let Some(below) = cause {
        message = format!("{message}: {below}");
        cause = below.source();
    }
    let set: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let message = format!("point {point} ({}): {}", set.join(", "), base.without_place(&message));
    Failure::Point { message, help }
}

fn axis(key: &Key, values: &[Value]) -> SweepAxis {
    SweepAxis { key: key.to_string(), values: values.iter().map(json).collect() }
}

fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
