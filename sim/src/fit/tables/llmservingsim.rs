//! Kernel tables of LLMServingSim: times of single operations of one layer on one card.
//!
//! | table | columns | rows |
//! |---|---|---|
//! | dense | `layer`, `tokens`, `time_us` | operations of a layer by the tokens of a step; embedding and final norm once a step |
//! | per sequence | `layer`, `sequences`, `time_us` | LM head and sampler by the sequences that sample |
//! | attention | `prefill_chunk`, `kv_prefill`, `n_decode`, `kv_decode`, `time_us` | decodes (no chunk), one prefill (no decodes), and both in one kernel |
//!
//! The norm runs twice in a layer. The shortest lengths stand in for what lies below them: chunk 1 costs what the first
//! measured chunk does, and no context what the first measured one does.

use std::collections::{BTreeMap, BTreeSet};

use calibrate::profile::{Attention, Axis, Curve, Grid, Mixed, Surface, Table};

use super::sheet::{Column, Sheet};
use crate::fit::FitError;

/// Operations of a layer, and how often each runs in it.
const OF_LAYER: [(&str, f64); 7] = [
    ("layernorm", 2.0),
    ("qkv_proj", 1.0),
    ("rotary_emb", 1.0),
    ("o_proj", 1.0),
    ("gate_up_proj", 1.0),
    ("act_fn", 1.0),
    ("down_proj", 1.0),
];

/// Operations of a step outside its layers.
const OF_STEP: [&str; 2] = ["embedding", "final_layernorm"];

/// Operations of those that sample.
const OF_HEAD: [&str; 2] = ["lm_head", "sampler"];

const WHOLE: &str = "give the table whole, as the profiler wrote it";

/// Whether the columns are those of a dense table.
#[must_use]
pub fn is_dense(sheet: &Sheet) -> bool {
    ["layer", "tokens", "time_us"].iter().all(|name| sheet.has(name))
}

/// Whether the columns are those of LM head and sampler.
#[must_use]
pub fn is_head(sheet: &Sheet) -> bool {
    ["layer", "sequences", "time_us"].iter().all(|name| sheet.has(name))
}

/// Whether the columns are those of an attention table.
#[must_use]
pub fn is_attention(sheet: &Sheet) -> bool {
    AXES.iter().chain(&["time_us"]).all(|name| sheet.has(name))
}

/// Rows -> microseconds of everything but attention and head in a model of `layers` layers.
///
/// # Errors
/// An operation is missing or unknown, or the operations were not timed at the same rows.
pub fn dense(sheet: &Sheet, layers: u32) -> Result<Curve, FitError> {
    let counts = OF_LAYER.map(|(name, count)| (name, count * f64::from(layers))).into_iter();
    sum(sheet, "tokens", counts.chain(OF_STEP.map(|name| (name, 1.0))).collect())
}

/// Sequences that sample -> microseconds of LM head and sampler, times `factor`.
///
/// # Errors
/// As of [`dense`].
pub fn head(sheet: &Sheet, factor: f64) -> Result<Curve, FitError> {
    sum(sheet, "sequences", OF_HEAD.map(|name| (name, factor)).to_vec())
}

/// The times of all operations, each so many times, over one quantity.
fn sum(sheet: &Sheet, quantity: &str, operations: Vec<(&str, f64)>) -> Result<Curve, FitError> {
    let [layer, count, time] = [sheet.column("layer")?, sheet.column(quantity)?, sheet.column("time_us")?];
    let mut times: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
    for row in sheet.rows() {
        let name = row.text(&layer);
        if !operations.iter().any(|(known, _)| *known == name) {
            let problem = format!("column layer: `{}` is no operation of this table", super::sheet::shown(name));
            let names: Vec<&str> = operations.iter().map(|(known, _)| *known).collect();
            return Err(row.fault(problem, format!("known are {}", names.join(", "))));
        }
        if times.entry(name).or_default().insert(row.count(&count)?, row.time(&time)?).is_some() {
            return Err(row.fault(format!("{name} at {} {quantity} again", row.text(&count)), WHOLE));
        }
    }
    let knots: BTreeSet<u32> = times.values().flat_map(BTreeMap::keys).copied().collect();
    let mut us = vec![0.0; knots.len()];
    for (name, factor) in operations {
        let of_name =
            times.get(name).ok_or_else(|| FitError::file(sheet.file(), format!("no row of {name}"), WHOLE))?;
        for (sum, knot) in us.iter_mut().zip(&knots) {
            let missing = || FitError::file(sheet.file(), format!("no row of {name} at {knot} {quantity}"), WHOLE);
            *sum += factor * of_name.get(knot).ok_or_else(missing)?;
        }
    }
    let axis = Axis::new(knots.into_iter().map(f64::from).collect());
    let table = axis.and_then(|axis| Table::new(axis, us));
    let few = || FitError::file(sheet.file(), format!("fewer than two numbers of {quantity}"), WHOLE);
    Ok(Curve::Table(table.ok_or_else(few)?))
}

/// The quantities of an attention table, in the order of [`Mixed::at`].
const AXES: [&str; 4] = ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode"];

/// Attention of all layers of a model of `layers` layers, times `factor`.
///
/// # Errors
/// Decodes or prefills are missing, or not measured for every combination of their quantities.
pub fn attention(sheet: &Sheet, layers: u32, factor: f64) -> Result<Attention, FitError> {
    let columns: Vec<Column> = AXES.iter().map(|name| sheet.column(name)).collect::<Result<_, _>>()?;
    let time = sheet.column("time_us")?;
    let mut times: BTreeMap<[u32; 4], f64> = BTreeMap::new();
    for row in sheet.rows() {
        let mut at = [0; 4];
        for (quantity, column) in at.iter_mut().zip(&columns) {
            *quantity = row.count(column)?;
        }
        let us = row.time(&time)? * f64::from(layers) * factor;
        if times.insert(at, us).is_some() {
            return Err(row.fault(format!("the combination {at:?} again"), WHOLE));
        }
    }
    let times = Times { file: sheet.file(), times };
    let decodes = times.grid("decodes", |at| at[0] == 0 && at[2] > 0, [2, 3], [false, true])?;
    let prefills = times.grid("prefills", |at| at[0] > 0 && at[2] == 0, [0, 1], [true, false])?;
    Ok(Attention {
        padded_request_us: times.padded_request_us(),
        decode: Surface::Grid(decodes),
        prefill: Surface::Grid(prefills),
        mixed: times.mixed()?,
        separate_kernels: false,
        shared_us: 0.0,
    })
}

/// Microseconds of all layers by chunk, its context, decoding requests and their mean context.
struct Times<'a> {
    file: &'a str,
    times: BTreeMap<[u32; 4], f64>,
}

/// What the first knot of a quantity stands in for: one token of a chunk, or no context.
fn widened(knots: &[u32], first: u32) -> Vec<u32> {
    let missing = knots.first().is_some_and(|&knot| knot > first);
    missing.then_some(first).into_iter().chain(knots.iter().copied()).collect()
}

fn axis(knots: &[u32]) -> Option<Axis> {
    Axis::new(knots.iter().copied().map(f64::from).collect())
}

impl Times<'_> {
    /// The values of a quantity among the rows of a kind.
    fn knots(&self, is_of_kind: impl Fn(&[u32; 4]) -> bool, quantity: usize) -> Vec<u32> {
        let values: BTreeSet<u32> = self.times.keys().filter(|at| is_of_kind(at)).map(|at| at[quantity]).collect();
        values.into_iter().collect()
    }

    fn at(&self, at: [u32; 4]) -> Result<f64, FitError> {
        let [chunk, context, decodes, decode_context] = at;
        self.times.get(&at).copied().ok_or_else(|| {
            let problem = format!(
                "no row of prefill_chunk {chunk}, kv_prefill {context}, n_decode {decodes}, kv_decode {decode_context}"
            );
            FitError::file(self.file, problem, WHOLE)
        })
    }

    /// The rows of a kind over two of the quantities, the others being zero. `widen` says which of both begins at less than
    /// its first knot.
    fn grid(
        &self,
        kind: &str,
        is_of_kind: impl Fn(&[u32; 4]) -> bool + Copy,
        quantities: [usize; 2],
        widen: [bool; 2],
    ) -> Result<Grid, FitError> {
        let few = || FitError::file(self.file, format!("fewer than two sizes of {kind}"), WHOLE);
        let measured = quantities.map(|quantity| self.knots(is_of_kind, quantity));
        let mut values = Vec::new();
        let first = [measured[0].first().copied().ok_or_else(few)?, measured[1].first().copied().ok_or_else(few)?];
        let lowest = |quantity: usize| u32::from(quantity == 0);
        let knots =
            [0, 1].map(|i| if widen[i] { widened(&measured[i], lowest(quantities[i])) } else { measured[i].clone() });
        for &x in &knots[0] {
            for &y in &knots[1] {
                let mut at = [0; 4];
                (at[quantities[0]], at[quantities[1]]) = (x.max(first[0]), y.max(first[1]));
                values.push(self.at(at)?);
            }
        }
        let grid = axis(&knots[0]).zip(axis(&knots[1])).and_then(|(x, y)| Grid::new(x, y, values));
        grid.ok_or_else(few)
    }

    /// The rows of one prefill beside decodes; `None` where there are none.
    fn mixed(&self) -> Result<Option<Mixed>, FitError> {
        let is_mixed = |at: &[u32; 4]| at[0] > 0 && at[2] > 0;
        let measured = [0, 1, 2, 3].map(|quantity| self.knots(is_mixed, quantity));
        let [Some(&chunk_first), _, _, Some(&context_first)] = measured.each_ref().map(|knots| knots.first()) else {
            return Ok(None);
        };
        let [chunks, contexts, decodes, decode_contexts] = &measured;
        let (chunks, decode_contexts) = (widened(chunks, 1), widened(decode_contexts, 0));
        let mut values = Vec::with_capacity(chunks.len() * contexts.len() * decodes.len() * decode_contexts.len());
        for &chunk in &chunks {
            for &context in contexts {
                for &requests in decodes {
                    for &decode_context in &decode_contexts {
                        values.push(self.at([
                            chunk.max(chunk_first),
                            context,
                            requests,
                            decode_context.max(context_first),
                        ])?);
                    }
                }
            }
        }
        let few = || FitError::file(self.file, "fewer than two sizes of prefills beside decodes", WHOLE);
        let axes = [&chunks, contexts, decodes, &decode_contexts].map(|knots| axis(knots).ok_or_else(few));
        let [a, b, c, d] = axes;
        Ok(Some(Mixed::new([a?, b?, c?, d?], values).ok_or_else(few)?))
    }

    /// What a request adds that only fills up a graph: the slope over the largest two batches at the shortest context.
    fn padded_request_us(&self) -> f64 {
        let is_decode = |at: &[u32; 4]| at[0] == 0 && at[2] > 0;
        let (requests, contexts) = (self.knots(is_decode, 2), self.knots(is_decode, 3));
        let (Some([few, many]), Some(&context)) = (requests.last_chunk(), contexts.first()) else { return 0.0 };
        let us = |requests: u32| self.times.get(&[0, 0, requests, context]).copied().unwrap_or_default();
        ((us(*many) - us(*few)) / f64::from(many - few)).max(0.0)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums of whole numbers are exact")]
mod tests {
    use std::path::{Path, PathBuf};

    use calibrate::profile::Profile;

    use super::*;
    use crate::fit::Source;

    fn sheet(text: &str) -> Sheet {
        Sheet::read(&Source { file: "t.csv".to_owned(), text: text.to_owned(), sha256: String::new() })
            .expect("a table")
    }

    fn dense_table() -> String {
        let operations = OF_LAYER.iter().map(|(name, _)| *name).chain(OF_STEP);
        let rows = operations.map(|name| format!("{name},1,10\n{name},8,20\n"));
        "layer,tokens,time_us\n".to_owned() + &rows.collect::<String>()
    }

    const ATTENTION: &str = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us
0,0,1,16,5\n0,0,1,64,6\n0,0,4,16,9\n0,0,4,64,13
16,0,0,0,10\n16,32,0,0,12\n64,0,0,0,30\n64,32,0,0,36
";

    fn mixed() -> String {
        let mut table = ATTENTION.to_owned();
        for at in ["16,0", "16,32", "64,0", "64,32"] {
            for decodes in ["1,16", "1,64", "4,16", "4,64"] {
                table = table + at + "," + decodes + ",40\n";
            }
        }
        table
    }

    #[test]
    fn operations_are_summed_over_the_layers() {
        // Eight of a layer, the norm twice, and two of a step.
        let dense = dense(&sheet(&dense_table()), 3).expect("a curve");
        assert_eq!((dense.at(1.0).value, dense.at(8.0).value), (10.0 * 26.0, 20.0 * 26.0));
        let head =
            head(&sheet("layer,sequences,time_us\nlm_head,1,90\nsampler,1,10\nlm_head,4,100\nsampler,4,20\n"), 0.5);
        assert_eq!(head.expect("a curve").at(4.0).value, 60.0);
    }

    #[test]
    fn attention_is_read_by_its_kinds() {
        let alone = attention(&sheet(ATTENTION), 2, 1.0).expect("attention");
        assert_eq!((alone.decode.at(4.0, 64.0).value, alone.prefill.at(64.0, 32.0).value), (26.0, 72.0));
        // What lies below the shortest costs as much as it.
        assert_eq!((alone.decode.at(1.0, 0.0).value, alone.prefill.at(1.0, 0.0).value), (10.0, 20.0));
        assert_eq!((alone.decode.at(1.0, 3.0).outside, alone.prefill.at(3.0, 0.0).outside), (None, None));
        assert!(alone.mixed.is_none() && !alone.separate_kernels);
        assert!((alone.padded_request_us - 2.0 * (9.0 - 5.0) / 3.0).abs() < 1e-12);
        let scaled = attention(&sheet(&mixed()), 2, 0.25).expect("attention");
        assert_eq!(scaled.mixed.expect("there is some").at(20.0, 1.0, 2.0, 0.0).value, 20.0);
    }

    #[test]
    fn what_is_missing_is_named() {
        let dense_error = |text: &str| dense(&sheet(text), 3).expect_err("refused").to_string();
        assert_eq!(dense_error(&dense_table().replace("o_proj,8,20\n", "")), "t.csv: no row of o_proj at 8 tokens");
        assert_eq!(
            dense_error(&dense_table().replace("act_fn", "gelu")),
            "t.csv:12: column layer: `gelu` is no operation of this table"
        );
        assert_eq!(dense_error(&(dense_table() + "act_fn,8,20\n")), "t.csv:20: act_fn at 8 tokens again");
        let norms: String = dense_table()
            .lines()
            .filter(|line| !line.starts_with("layernorm"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        assert_eq!(dense_error(&norms), "t.csv: no row of layernorm");
        let attention_error = |text: &str| attention(&sheet(text), 3, 1.0).expect_err("refused").to_string();
        let missing = "t.csv: no row of prefill_chunk 0, kv_prefill 0, n_decode 1, kv_decode 64";
        assert_eq!(attention_error(&ATTENTION.replace("0,0,1,64,6\n", "")), missing);
        let missing = "t.csv: no row of prefill_chunk 64, kv_prefill 0, n_decode 4, kv_decode 16";
        assert_eq!(attention_error(&mixed().replace("64,0,4,16,40\n", "")), missing);
        let only = ATTENTION.lines().take(5).map(|line| line.to_owned() + "\n").collect::<String>();
        assert_eq!(attention_error(&only), "t.csv: fewer than two sizes of prefills");
    }

    /// The folder of public tables, where this machine has it.
    fn shared_table(part: &str) -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let shared = std::env::var_os("RUNGWISE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
        let file = shared.join(format!("traces/kernels_rtx4090_llama8b_tp1_{part}.csv"));
        if !file.is_file() {
            println!("skipped: no {}", file.display());
            return None;
        }
        Some(file)
    }

    /// Another program, `derive.py`, made the built-in profile of the same tables; it rounds to a tenth of a microsecond.
    #[test]
    fn the_public_tables_agree_with_the_built_in_profile() {
        let read =
            |part| shared_table(part).map(|file| Sheet::read(&Source::read(&file).expect("reads")).expect("a table"));
        let (Some(of_dense), Some(of_head), Some(of_attention)) =
            (read("dense"), read("per_sequence"), read("attention"))
        else {
            return;
        };
        assert!(is_dense(&of_dense) && is_head(&of_head) && is_attention(&of_attention));
        assert!(!is_dense(&of_head) && !is_head(&of_attention) && !is_attention(&of_dense));
        let built_in = Profile::builtin("rtx4090-llama-3.1-8b").expect("built in");
        let dense = dense(&of_dense, 32).expect("a curve");
        for rows in [1.0, 13.0, 40.0, 256.0, 513.0, 2048.0] {
            let (ours, theirs) = (dense.at(rows).value, built_in.machine.dense.figures.at(rows).value);
            // The built-in profile leaves embedding and final norm out.
            assert!((0.0..0.002).contains(&(ours / theirs - 1.0)), "{rows}: {ours} {theirs}");
        }
        let head = head(&of_head, 1.0).expect("a curve");
        let attention = attention(&of_attention, 32, 1.0).expect("attention");
        let theirs = &built_in.attention().expect("there is some").figures;
        let close = |ours: f64, theirs: f64| assert!((ours / theirs - 1.0).abs() < 1e-3, "{ours} {theirs}");
        for (requests, context) in [(1.0, 16.0), (33.0, 1240.0), (256.0, 16384.0)] {
            close(attention.decode.at(requests, context).value, theirs.decode.at(requests, context).value);
            close(head.at(requests).value, built_in.machine.head.figures.at(requests).value);
        }
        close(attention.prefill.at(700.0, 300.0).value, theirs.prefill.at(700.0, 300.0).value);
        // The slope over other batches.
        assert!((attention.padded_request_us / theirs.padded_request_us - 1.0).abs() < 0.03);
        // Thinned there; the same at knots that both have.
        let at = |mixed: &Option<Mixed>| mixed.as_ref().expect("there is some").at(512.0, 2048.0, 32.0, 1024.0).value;
        close(at(&attention.mixed), at(&theirs.mixed));
    }
}
