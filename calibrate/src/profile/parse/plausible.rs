//! Whether the parts of a profile belong together: each number may be a good one, and the whole no measurement all the same.

use kernels::units::Bytes;
use kernels::work::step_operations;

use super::super::file::{ProfileFile, RungsFile};
use super::super::{Kind, Profile};
use super::{Origin, Parsed};

/// Kernel nodes of an operation, at least and at most: two operations may share a kernel, and one may be split.
const NODES_PER_OPERATION: [f64; 2] = [0.5, 4.0];
/// What is read from the driver is not timed: it states no interval.
const NOT_TIMED: [&str; 1] = ["machine.memory"];

impl Origin<'_> {
    /// That figures which count as measured bring their measurement, and that it fits the model and the device.
    pub(super) fn plausible(self, file: &ProfileFile, profile: &Profile) -> Parsed<()> {
        self.measured_groups(profile)?;
        let (Some(run), Some(stated)) = (&file.measurement, &profile.measurement) else { return Ok(()) };
        let model = &profile.identity.model;
        let own_layers = stated.weight_layers.unwrap_or(model.layers).min(model.layers);
        let shared = u64::from(model.layers - own_layers) * model.layer_parameters();
        let weights = Bytes((model.parameters() - shared) * u64::from(model.weight_bits) / 8);
        let total = profile.machine.memory.figures.total;
        if total < weights {
            let problem = format!("{total}: expected at least {weights}, the weights that were measured there");
            let help = "correct the bytes, or the numbers under [identity.model]";
            return Err(self.fault(
                "machine.memory.total_bytes",
                file.machine.memory.total_bytes.span(),
                problem,
                help,
            ));
        }
        let operations = f64::from(step_operations(model));
        let [least, most] = NODES_PER_OPERATION.map(|nodes| nodes * operations);
        let nodes = |mode: &str, rungs: Option<&RungsFile>| {
            let nodes = rungs.into_iter().flat_map(|rungs| rungs.nodes.get_ref()).enumerate();
            let mut odd = nodes.filter(|(_, nodes)| !(least..=most).contains(nodes.get_ref()));
            odd.next().map_or(Ok(()), |(index, nodes)| {
                let problem = format!(
                    "{} kernel nodes: expected {least} to {most} for the {} layers of this model",
                    nodes.get_ref(),
                    model.layers
                );
                let help = "the tables are of another model: correct the numbers under [identity.model]";
                Err(self.fault(format!("measurement.{mode}.nodes[{index}]"), nodes.span(), problem, help))
            })
        };
        nodes("full", run.full.as_ref())?;
        nodes("piecewise", run.piecewise.as_ref())
    }

    fn measured_groups(self, profile: &Profile) -> Parsed<()> {
        for group in profile.each_group() {
            let kind = group.provenance.kind;
            if !matches!(kind, Kind::Measured | Kind::Double) {
                continue;
            }
            let table = format!("{}.provenance", group.name);
            let help = "write `declared` with its range where nothing was measured; calibrate writes what it measures";
            if profile.measurement.is_none() {
                let problem = format!("{kind} figures without [measurement]: expected when and how they were measured");
                return Err(self.missing(&table, &problem, help));
            }
            let has_samples = group.measured.is_some_and(|measured| !measured.intervals.is_empty());
            if !has_samples && !NOT_TIMED.contains(&group.name) {
                let problem =
                    format!("{kind} figures without [{}.measured]: expected intervals with their samples", group.name);
                return Err(self.missing(&table, &problem, help));
            }
        }
        Ok(())
    }
}
