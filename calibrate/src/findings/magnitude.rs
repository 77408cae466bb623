//! Figures that lie outside what cards are known for: kept with the profile, never a failure (GPU specification section 4,
//! "magnitudes for sanity checks"). The ranges are wide: they find a wrong unit or a broken clock, not a slow card.

use super::machine::Findings;
use crate::profile::KeptWarning;

/// Warnings about figures of these findings.
pub fn implausible(found: &Findings<'_>) -> Vec<KeptWarning> {
    let launch = found.launch.result;
    let mut figures = vec![
        ("a launch, host", "us", launch.eager_host.each_us.value, [0.3, 20.0]),
        ("a replay, host", "us", launch.graph_host.fixed_us.value, [0.3, 100.0]),
        ("a graph node, host", "us", launch.graph_host.each_us.value, [0.0, 2.0]),
        ("a graph node, device", "us", launch.graph_device.each_us.value, [0.1, 10.0]),
    ];
    let node_bytes = found.executables.as_ref().map(|executables| executables.result.node_bytes.value);
    figures.extend(node_bytes.map(|bytes| ("executable memory of a graph node", "bytes", bytes, [100.0, 200_000.0])));
    let bandwidth = found.bandwidth.as_ref().map(|bandwidth| bandwidth.result.copy_gb_per_s.value);
    figures.extend(bandwidth.map(|speed| ("copy bandwidth", "GB/s", speed, [50.0, 20_000.0])));
    let outside = figures.into_iter().filter(|(.., figure, [low, high])| !(*low..=*high).contains(figure));
    let warning = |(what, unit, figure, [low, high]): (&str, &str, f64, [f64; 2])| KeptWarning {
        code: "implausible".to_owned(),
        what: format!("{what}: {figure:.3} {unit}, where cards take {low} to {high}"),
        advice: Some("measure again on an idle machine, and look at clocks and driver".to_owned()),
    };
    outside.map(warning).collect()
}
