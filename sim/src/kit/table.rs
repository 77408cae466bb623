//! The predicted figures, with an empty column beside each.

use super::{Set, lines};
use crate::flags::Target;

/// The figures of all sets, each once, in the order of their first mention; with the unit.
fn figures(sets: &[Set]) -> Vec<(&str, &str)> {
    let mut figures: Vec<(&str, &str)> = Vec::new();
    for predicted in sets.iter().flat_map(|set| &set.predicted) {
        let figure = (predicted.figure.as_str(), predicted.unit.as_str());
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures
}

fn value(set: &Set, (figure, unit): (&str, &str)) -> Option<f64> {
    let found = set.predicted.iter().find(|predicted| predicted.figure == figure && predicted.unit == unit);
    found.map(|predicted| predicted.value).filter(|value| value.is_finite())
}

/// A row for each figure, two columns for each set.
pub(super) fn markdown(sets: &[Set], target: Target) -> String {
    let heads = sets.iter().flat_map(|set| [format!("{}: predicted", set.name), "measured".to_owned()]);
    let head =
        row(["figure".to_owned(), "unit".to_owned()].into_iter().chain(heads).chain(["where to read it".to_owned()]));
    let rule = format!("|---|---|{}---|", "---:|---:|".repeat(sets.len()));
    let figures = figures(sets).into_iter().map(|figure| {
        let values = sets.iter().flat_map(|set| [value(set, figure).map_or_else(String::new, short), String::new()]);
        let place = place(figure.0, target).to_owned();
        row([cell(figure.0), cell(figure.1)].into_iter().chain(values).chain([place]))
    });
    lines([head, rule].into_iter().chain(figures))
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// A row for each set and figure.
pub(super) fn csv(sets: &[Set], target: Target) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = "memory takes every row";
    writer.write_record(["set", "figure", "unit", "predicted", "measured", "where"]).expect(written);
    for set in sets {
        for figure in figures(sets) {
            let predicted = value(set, figure).map_or_else(String::new, |value| value.to_string());
            let row = [&set.name, figure.0, figure.1, &predicted, "", place(figure.0, target)];
            writer.write_record(row).expect(written);
        }
    }
    String::from_utf8(writer.into_inner().expect(written)).expect("every field is UTF-8")
}

/// A number with as many digits as a reader compares.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size == 0.0 || size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// Text that ends no cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Where the measured value of a figure is found.
fn place(figure: &str, target: Target) -> &'static str {
    let is_vllm = matches!(target, Target::Vllm(_));
    let of_client =
        ["request_", "output_throughput", "completed", "duration", "mean_", "median_", "p99_", "slo_attainment"];
    let of_requests = ["ttft", "tpot", "itl"];
    let of_steps = ["exact_hit", "padding", "waste", "padded", "fallback", "mean_batch", "median_decode", "p99_decode"];
    if of_steps.iter().any(|start| figure.starts_with(start)) {
        return if is_vllm {
            "server's log, --cudagraph-metrics table"
        } else {
            "server's log, Decode and Prefill lines"
        };
    }
    if figure.contains("e2el") {
        return if is_vllm { "client's result, same key" } else { "client's result, e2e_latency" };
    }
    if of_requests.iter().any(|part| figure.contains(part)) || of_client.iter().any(|start| figure.starts_with(start)) {
        return "client's result, same key";
    }
    if ["graph_memory", "graph_pool", "capture", "kv_", "startup", "descriptors", "cuda_graphs"]
        .iter()
        .any(|part| figure.contains(part))
    {
        return if is_vllm { "server's log at start-up" } else { "server's log at start-up, Capture lines" };
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown = [0.0, 0.012_34, 1.234_5, 12.345, 5000.4].map(short);
        assert_eq!(shown, ["0", "0.0123", "1.23", "12.3", "5000"]);
    }
}
