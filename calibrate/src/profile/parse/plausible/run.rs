//! One calibration run: does what it captured fit the device, the model and the tables beside it?

use kernels::units::Bytes;
use kernels::work::step_operations;

use super::super::super::{Curve, Measurement, NotMeasured, Profile, Rungs};
use super::super::{Origin, Parsed};
use crate::graph_mode::Mode;

/// Kernel nodes of an operation, at least and at most: two operations may share a kernel, and one may be split.
const NODES_PER_OPERATION: [f64; 2] = [0.5, 4.0];
/// By which factor a step may take less time than a smaller one, or more than its rows are more, and by how many microseconds
/// besides: other tiles and clocks do no more.
const JUMP: f64 = 4.0;
const JUMP_US: f64 = 20.0;

/// The modes with the names of their tables.
fn modes(run: &Measurement) -> [(Mode, &'static str, Option<&Rungs>); 2] {
    [(Mode::Full, "full", run.full.as_ref()), (Mode::Piecewise, "piecewise", run.piecewise.as_ref())]
}

impl Origin<'_> {
    /// Weights and graphs fit into the memory.
    pub(super) fn fits_device(self, profile: &Profile, run: &Measurement) -> Parsed<()> {
        let model = &profile.identity.model;
        if let Some(own) = run.weight_layers
            && own >= model.layers
        {
            let problem = format!("{own}: expected fewer than the {} layers of the model", model.layers);
            let help = "remove the key where every layer had weights of its own";
            return self.wrong("measurement.weight_layers", problem, help);
        }
        let shared = u64::from(model.layers - run.weight_layers.unwrap_or(model.layers)) * model.layer_parameters();
        let weights = Bytes((model.parameters() - shared) * u64::from(model.weight_bits) / 8);
        let total = profile.machine.memory.figures.total;
        if total < weights {
            let problem = format!("{total}: expected at least {weights}, the weights that were measured there");
            let help = "correct the bytes, or the numbers under [identity.model]";
            return self.wrong("machine.memory.total_bytes", problem, help);
        }
        let help = "correct the bytes, or machine.memory.total_bytes";
        let pool = &profile.machine.pool;
        let stated = [
            ("base_bytes", pool.figures.base),
            ("bytes_per_row", pool.figures.per_row),
            ("full_executable_bytes", pool.figures.full_executable),
            ("piecewise_executable_bytes", pool.figures.piecewise_executable),
        ];
        if let Some((name, bytes)) = stated.into_iter().find(|(_, bytes)| *bytes > total)
            && pool.provenance.kind.is_measured()
        {
            let problem = format!("{bytes}: expected at most {total}, all memory of the device");
            return self.wrong(&format!("machine.pool.{name}"), problem, help);
        }
        let mut grown = 0.0;
        for (_, name, rungs) in modes(run) {
            for (index, growth) in rungs.iter().flat_map(|rungs| &rungs.pool_growth_bytes).enumerate() {
                grown += growth;
                if grown > total.0 as f64 {
                    let problem = format!("{growth}: expected at most {total} of all rungs, all memory of the device");
                    return self.wrong(&format!("measurement.{name}.pool_growth_bytes[{index}]"), problem, help);
                }
            }
        }
        Ok(())
    }

    /// The nodes are those of the model's operations.
    pub(super) fn fits_model(self, profile: &Profile, run: &Measurement) -> Parsed<()> {
        let model = &profile.identity.model;
        let operations = f64::from(step_operations(model));
        let [least, most] = NODES_PER_OPERATION.map(|nodes| nodes * operations);
        for (_, name, rungs) in modes(run) {
            let mut nodes = rungs.iter().flat_map(|rungs| &rungs.nodes).enumerate();
            if let Some((index, nodes)) = nodes.find(|(_, nodes)| !(least..=most).contains(*nodes)) {
                let layers = model.layers;
                let problem =
                    format!("{nodes} kernel nodes: expected {least} to {most} for the {layers} layers of this model");
                let help = "the tables are of another model: correct the numbers under [identity.model]";
                return self.wrong(&format!("measurement.{name}.nodes[{index}]"), problem, help);
            }
        }
        Ok(())
    }

    /// From one captured size to the next the times of steps move as work does, and none is shorter by much than what the dense
    /// table has for its rows.
    pub(super) fn fits_steps(self, profile: &Profile, run: &Measurement) -> Parsed<()> {
        const TIMED: [&str; 4] = ["replay_host_us", "replay_device_us", "eager_host_us", "eager_device_us"];
        let dense = Some(&profile.machine.dense).filter(|dense| dense.provenance.kind.is_measured());
        let help = "correct the number; calibrate writes what it measures";
        for (_, name, rungs) in modes(run) {
            let Some(rungs) = rungs else { continue };
            for (column, values) in rungs.columns().into_iter().filter(|(column, _)| TIMED.contains(column)) {
                let wrong = |index: usize, expected: String| {
                    let problem = format!("{}: expected {expected}", values[index]);
                    self.wrong(&format!("measurement.{name}.{column}[{index}]"), problem, help)
                };
                for index in 1..values.len() {
                    let (before, more) = (values[index - 1], rungs.rows[index] / rungs.rows[index - 1]);
                    let (least, most) = ((before - JUMP_US) / JUMP, before * JUMP * more + JUMP_US);
                    if !(least..=most).contains(&values[index]) {
                        return wrong(index, format!("{least} to {most} behind {before} of the size before"));
                    }
                }
                let Some(dense) = dense.filter(|_| column.ends_with("device_us")) else { continue };
                for (index, rows) in rungs.rows.iter().enumerate() {
                    let least = (dense.figures.at(*rows).value - JUMP_US) / JUMP;
                    if values[index] < least {
                        return wrong(index, format!("{least} at least, by machine.dense at {rows} rows"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Where graphs were measured, the sizes are there that were captured, or that they were not is said; and other tables
    /// hold them.
    pub(super) fn fits_rungs(self, profile: &Profile, run: &Measurement) -> Parsed<()> {
        let machine = &profile.machine;
        let priced = [&machine.pool.provenance, &machine.capture.provenance];
        if priced.iter().any(|provenance| provenance.kind.is_measured()) {
            let help = "calibrate writes both; what cannot be had from the run again is not to be removed";
            if run.full.is_none() && run.piecewise.is_none() {
                let problem = "no captured size of either mode: expected [measurement.full] or [measurement.piecewise]";
                return Err(self.missing("measurement", problem, help));
            }
            for (mode, name, rungs) in modes(run) {
                let is_left_out = run.not_measured.iter().any(|left_out| left_out.what == NotMeasured::graphs(mode));
                if rungs.is_none() && !is_left_out {
                    let said = NotMeasured::graphs(mode);
                    let problem =
                        format!("no [measurement.{name}]: expected it, or `{said}` as a [[measurement.not_measured]]");
                    return Err(self.missing("measurement", &problem, help));
                }
            }
        }
        if let Curve::Table(dense) = &machine.dense.figures
            && machine.dense.provenance.kind.is_measured()
        {
            for (_, name, rungs) in modes(run) {
                let mut rows = rungs.iter().flat_map(|rungs| &rungs.rows).enumerate();
                if let Some((index, rows)) = rows.find(|(_, rows)| !dense.x().contains(rows)) {
                    let problem = format!("{rows}: expected one of machine.dense.table.rows: every captured size is");
                    let help = "correct the size, or the rows of the table";
                    return self.wrong(&format!("measurement.{name}.rows[{index}]"), problem, help);
                }
            }
        }
        let captured = profile.captured_rows();
        let gaps = [("machine.eager_gap", &machine.eager_gap), ("machine.piecewise_gap", &machine.piecewise_gap)];
        for (name, gap) in gaps {
            let Some(group) = gap.as_ref().filter(|group| group.provenance.kind.is_measured()) else { continue };
            let Curve::Table(table) = &group.figures else { continue };
            if let Some(index) = table.x().iter().position(|rows| !captured.contains(rows)) {
                let problem = format!("{}: expected a captured size, of either mode", table.x()[index]);
                let help = "correct the size, or the rows under [measurement.full] and [measurement.piecewise]";
                return self.wrong(&format!("{name}.table.rows[{index}]"), problem, help);
            }
        }
        Ok(())
    }
}
