//! In which range a figure lies that somebody measured. The ranges are wide: they find a wrong unit, a slipped digit or a
//! figure that was made up, not a slow machine; the documentation of each figure states its own. Declared figures may be
//! anything, for exercises are.

use super::super::LEAST_FIGURE as LEAST;

/// Microseconds of a step, or of a part of one.
const STEP_US: [f64; 2] = [LEAST, 1e8];
const HOUR_S: f64 = 3_600.0;
/// Bytes of a part of the device's memory.
const PART: [f64; 2] = [0.0, (1_u64 << 44) as f64];

/// Group, figure (any, where it is empty), and the least and the most of it; the first that fits holds.
const RANGES: [(&str, &str, [f64; 2]); 26] = [
    ("machine.memory", "total_bytes", [(1_u64 << 26) as f64, PART[1]]),
    ("machine.dense", "us_per_row", [0.0, STEP_US[1]]),
    ("machine.dense", "us", STEP_US),
    ("machine.head", "us", STEP_US),
    ("machine.launch", "launch_us", [LEAST, 1e4]),
    ("machine.replay", "fixed_us", [LEAST, 1e5]),
    ("machine.replay", "node_us", [0.0, 1e3]),
    ("machine.update", "update_us", [0.0, 1e6]),
    ("machine.update", "node_us", [0.0, 1e4]),
    ("machine.pool", "", PART),
    ("machine.capture", "first_extra_s", [0.0, HOUR_S]),
    ("machine.capture", "", [LEAST, HOUR_S]),
    ("machine.bandwidth", "read_gb_per_s", [LEAST, 1e5]),
    ("machine.attention", "padded_request_us", [0.0, 1e6]),
    ("machine.attention", "shared_us", [0.0, 1e6]),
    ("machine.attention", "", STEP_US),
    ("machine.eager_gap", "", [LEAST, 1e7]),
    ("machine.piecewise_gap", "", [LEAST, 1e7]),
    ("engine.attention", "padded_request_us", [0.0, 1e6]),
    ("engine.attention", "shared_us", [0.0, 1e6]),
    ("engine.attention", "", STEP_US),
    ("engine.dispatch", "", [0.0, 1e5]),
    ("engine.host", "step_overhead_us", [0.0, 1e7]),
    ("engine.host", "", [0.0, 1e6]),
    ("engine.activation", "", PART),
    ("engine.startup", "", [0.0, 24.0 * HOUR_S]),
];

/// The least and the most that a figure of a group is where it was measured; `None` of operations, which are counts and no
/// more than the file's own rule accepts.
pub(super) fn of(group: &str, figure: &str) -> Option<[f64; 2]> {
    let fits = |(of, name, _): &&(&str, &str, _)| *of == group && (name.is_empty() || *name == figure);
    RANGES.iter().find(fits).map(|(_, _, range)| *range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// No figure of a group but counts of operations goes without.
    #[test]
    fn every_figure_has_its_range() {
        let text = include_str!("../../../../tests/calibrate/double.toml");
        let profiles = [Profile::from_toml(text, "double.toml"), Profile::builtin("rtx4090-llama-3.1-8b")];
        for profile in profiles.map(Result::unwrap) {
            for group in profile.each_group() {
                for figure in group.figures.figures() {
                    assert_eq!(of(group.name, figure.name).is_none(), group.name == "engine.ops", "{}", figure.name);
                }
            }
        }
    }
}
