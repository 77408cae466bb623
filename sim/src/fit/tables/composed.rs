//! Operations timed one by one, put together as the parts of a profile: the composition that their profilers use
//! (profile-data specification, "Composition").

use std::collections::BTreeMap;

use calibrate::measure::median;
use calibrate::profile::{Attention, Axis, Curve, Group, Kind, Provenance, Surface, Table as Knots};
use kernels::geometry::ModelGeometry;

use super::grids::{self, rounded};
use super::sheet::Sheet;
use super::vidur::{AttentionTimes, Linear, Timing};
use super::{KernelKind, LaunchGap, Parts, Table, llmservingsim, soundness};
use crate::fit::{FitError, Read};

/// The parts that tables of operations give for a model, one rank's part of it where there are several.
///
/// # Errors
/// Tables that do not fit together, or too few sizes.
pub fn parts(read: &[Read], model: &ModelGeometry, licence: &str) -> Result<Parts, FitError> {
    let linear: Vec<(&Read, &Linear)> = read
        .iter()
        .filter_map(|read| if let Table::Linear(linear) = &read.table { Some((read, linear)) } else { None })
        .collect();
    let attention: Vec<(&Read, &AttentionTimes)> = read
        .iter()
        .filter_map(|read| if let Table::Attention(times) = &read.table { Some((read, times)) } else { None })
        .collect();
    let of_graphs = best(&linear, |linear| linear.timing)?;
    let of_kernels = best(&attention, |attention| attention.timing)?;
    let mut parts = Parts {
        dense: of_graphs.map(|(read, table)| dense(read, table, model, licence)).transpose()?,
        attention: of_kernels.map(|(read, table)| attention_group(read, table, model, licence)).transpose()?,
        launch_gap: launch_gap(&linear),
        ..Parts::default()
    };
    if let (Some(dense), Some((read, _))) = (&parts.dense, of_graphs) {
        parts.doubts.extend(soundness::of_rows(&read.source.file, &dense.figures, model)?);
    }
    if let (Some(attention), Some((read, _))) = (&parts.attention, of_kernels) {
        soundness::of_attention(&read.source.file, &attention.figures, model)?;
    }
    for read in read {
        if let Table::Kernels(kind, sheet) = &read.table {
            parts.add_kernels(read, *kind, sheet, model, licence)?;
        }
    }
    Ok(parts)
}

impl Parts {
    /// Adds what a kernel table of LLMServingSim has.
    fn add_kernels(
        &mut self,
        read: &Read,
        kind: KernelKind,
        sheet: &Sheet,
        model: &ModelGeometry,
        licence: &str,
    ) -> Result<(), FitError> {
        let layers = model.layers;
        let of_layer = format!("kernel times of one layer, summed, times {layers} layers");
        let range = |curve: &Curve, what: &str| match curve {
            Curve::Table(table) => format!("{} to {} {what}", table.x()[0], table.x()[table.x().len() - 1]),
            _ => format!("any number of {what}"),
        };
        let is_second = match kind {
            KernelKind::Dense => {
                let figures = llmservingsim::dense(sheet, layers)?;
                self.doubts.extend(soundness::of_rows(&read.source.file, &figures, model)?);
                let method = format!("{of_layer}; embedding and final norm once");
                let provenance = provenance(read, licence, method, range(&figures, "rows"));
                self.dense.replace(Group { figures, provenance, measured: None }).is_some()
            }
            KernelKind::Head => {
                let figures = llmservingsim::head(sheet, 1.0)?;
                let method = "LM head and sampler, summed".to_owned();
                let provenance = provenance(read, licence, method, range(&figures, "sequences"));
                self.head.replace(Group { figures, provenance, measured: None }).is_some()
            }
            KernelKind::Attention => {
                let figures = llmservingsim::attention(sheet, layers, 1.0)?;
                soundness::of_attention(&read.source.file, &figures, model)?;
                let mixed = if figures.mixed.is_some() { ", prefills beside decodes in one kernel" } else { "" };
                let method = format!(
                    "{of_layer}{mixed}; what lies below the first chunk or context takes its value; padded request: the slope over \
                     the largest two batches at the shortest context"
                );
                let valid = "the sizes of the table".to_owned();
                let provenance = provenance(read, licence, method, valid);
                self.attention.replace(Group { figures, provenance, measured: None }).is_some()
            }
        };
        if is_second {
            let problem = format!("a second table of {}", kind.words());
            return Err(FitError::file(&read.source.file, problem, "give one of them"));
        }
        Ok(())
    }
}

/// The table to price graphs with: kernels alone before what is not stated before events.
///
/// # Errors
/// Two tables that were timed in the same way.
fn best<'a, T>(tables: &[(&'a Read, &'a T)], timing: fn(&T) -> Timing) -> Result<Option<(&'a Read, &'a T)>, FitError> {
    for (place, (read, table)) in tables.iter().enumerate() {
        if let Some((other, _)) = tables[..place].iter().find(|(_, other)| timing(other) == timing(table)) {
            return Err(FitError::file(
                &read.source.file,
                format!("the same kind of table as {}", other.source.file),
                "give one of them: two together only where one was timed with events and the other has kernel times alone",
            ));
        }
    }
    let wanted = [Timing::KernelOnly, Timing::Unstated, Timing::Events];
    Ok(wanted.iter().find_map(|wanted| tables.iter().find(|(_, table)| timing(table) == *wanted).copied()))
}

fn provenance(read: &Read, licence: &str, method: String, valid: String) -> Provenance {
    Provenance {
        kind: Kind::Imported,
        source: read.source.cited(),
        licence: Some(licence.to_owned()),
        method: Some(method),
        valid: Some(valid),
        range: None,
    }
}

fn ranks_words(ranks: u32) -> String {
    if ranks == 1 { String::new() } else { format!("; one of {ranks} ranks, without the all-reduces between them") }
}

fn dense(read: &Read, table: &Linear, model: &ModelGeometry, licence: &str) -> Result<Group<Curve>, FitError> {
    let layers = f64::from(model.layers);
    let (rows, us): (Vec<f64>, Vec<f64>) =
        table.layer_ms.iter().map(|(&rows, ms)| (f64::from(rows), rounded(ms * layers * 1e3))).unzip();
    let axis = Axis::new(rows).ok_or_else(|| {
        FitError::file(&read.source.file, "times of one size only", "a table over rows needs two sizes at least")
    })?;
    let valid = format!("{} to {} rows, between neighbours on a straight line", axis.knots()[0], axis.last());
    let mut method = vec![
        format!("medians of {} operations of one layer, {}", table.operations, table.timing.words()),
        format!("summed, times {} layers{}", model.layers, ranks_words(table.ranks)),
    ];
    if !table.without_column.is_empty() {
        method.push(format!("no column of {}: fused into others, or left out", table.without_column.join(", ")));
    }
    if !table.from_one_rank.is_empty() {
        method.push(format!("{} from the rows of one rank", table.from_one_rank.join(", ")));
    }
    method.push("embedding and final norm left out; a size measured several times counts by its median".to_owned());
    let curve = Curve::Table(Knots::new(axis, us).expect("a time for each size"));
    Ok(Group { figures: curve, provenance: provenance(read, licence, method.join("; "), valid), measured: None })
}

/// Whole microseconds of all layers.
fn of_layers(ms: &BTreeMap<(u32, u32), f64>, model: &ModelGeometry) -> BTreeMap<(u32, u32), f64> {
    ms.iter().map(|(at, ms)| (*at, rounded(ms * f64::from(model.layers) * 1e3))).collect()
}

fn attention_group(
    read: &Read,
    table: &AttentionTimes,
    model: &ModelGeometry,
    licence: &str,
) -> Result<Group<Attention>, FitError> {
    let few = |what: &str| {
        let help = "decode needs two batches of two contexts each at least, prefill two chunks: give the table whole";
        FitError::file(&read.source.file, format!("too few sizes of {what}"), help)
    };
    let decode_us = of_layers(&table.decode_ms, model);
    let decode = grids::decode(&decode_us).ok_or_else(|| few("decode"))?;
    let prefill = grids::prefill(&of_layers(&table.prefill_ms, model), model, Some(&decode.grid));
    let prefill = prefill.ok_or_else(|| few("prefill"))?;
    let separate_kernels = table.backend.eq_ignore_ascii_case("FLASHINFER");
    let [requests, contexts] = decode.grid.axes();
    let [chunks, before] = prefill.grid.axes();
    let valid = format!(
        "decode of {} to {} requests with 0 to {} tokens of context; prefill chunks of {} to {} tokens after 0 to {}",
        requests.knots()[0],
        requests.last(),
        contexts.last(),
        chunks.knots()[0],
        chunks.last(),
        before.last()
    );
    let method = [
        format!("medians of one layer, {}, KV write included, times {} layers", table.timing.words(), model.layers),
        format!("backend {}{}", table.backend, ranks_words(table.ranks)),
        format!("decode: {}", decode.words()),
        format!("prefill: {}, those by arithmetic at the rate of the chunk's longer contexts", prefill.words()),
        "padded request: the slope of decode over the upper half of its requests at the shortest context".to_owned(),
        match table.mixed {
            0 => String::new(),
            mixed => format!("{mixed} rows of several prefills or of both kinds at once left out"),
        },
    ];
    let method = method.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let padded_request_us = rounded(padded_request_us(&decode_us));
    let figures = Attention {
        decode: Surface::Grid(decode.grid),
        prefill: Surface::Grid(prefill.grid),
        mixed: None,
        separate_kernels,
        padded_request_us,
        shared_us: 0.0,
    };
    Ok(Group { figures, provenance: provenance(read, licence, method, valid), measured: None })
}

/// What a request adds that only fills up a graph: it carries no KV, and takes about what one more request of the shortest
/// context does.
fn padded_request_us(decode_us: &BTreeMap<(u32, u32), f64>) -> f64 {
    let Some(shortest) = decode_us.keys().map(|&(_, context)| context).min() else { return 0.0 };
    let at_shortest: Vec<(u32, f64)> = decode_us
        .iter()
        .filter(|((_, context), _)| *context == shortest)
        .map(|(&(requests, _), us)| (requests, *us))
        .collect();
    let Some(&(most, most_us)) = at_shortest.last() else { return 0.0 };
    let half = at_shortest.iter().rev().find(|(requests, _)| requests * 2 <= most);
    half.map_or(0.0, |(requests, us)| ((most_us - us) / f64::from(most - requests)).max(0.0))
}

/// From the same operations timed with events and as kernels alone.
fn launch_gap(linear: &[(&Read, &Linear)]) -> Option<LaunchGap> {
    let timed = |timing| linear.iter().map(|(_, table)| *table).find(|table| table.timing == timing);
    let (events, kernels) = (timed(Timing::Events)?, timed(Timing::KernelOnly)?);
    if events.operations != kernels.operations {
        return None;
    }
    let operations = f64::from(kernels.operations);
    let gaps: Vec<f64> = events
        .layer_ms
        .iter()
        .filter_map(|(rows, ms)| Some((ms - kernels.layer_ms.get(rows)?) * 1e3 / operations))
        .collect();
    let us_per_operation = Some(median(&gaps)).filter(|us| us.is_finite())?;
    let range_us = [gaps.iter().copied().fold(f64::INFINITY, f64::min), gaps.iter().copied().fold(0.0, f64::max)];
    Some(LaunchGap { us_per_operation, range_us, sizes: gaps.len() as u32 })
}
