//! Tables in the form of Vidur's profiler, which Frontier shares: `mlp.csv` or `linear_op.csv`, and `attention.csv`.
//!
//! All times are milliseconds of one operation in one layer on one tensor-parallel rank. A step of `m` rows takes the sum of
//! the linear and elementwise operations, times the layers; a decode step adds attention by batch and KV length, a prefill by
//! chunk and KV length. Embedding, final norm, LM head and sampler are not in the tables' step.
//!
//! Frontier says in `measurement_type` how it timed. With events around every operation (`CUDA_EVENT`) the gap to the next
//! launch is inside, as in a step without a graph; `KERNEL_ONLY` is the kernels alone, as in a graph.

use std::collections::BTreeMap;

use calibrate::measure::median;

use super::sheet::{Column, Row, Sheet};
use crate::fit::FitError;

/// Matrix products of one layer: every table has them.
const PRODUCTS: [&str; 4] = ["attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj"];
/// The other operations of one layer; an engine that fuses one has no column for it.
const OTHERS: [&str; 5] = ["input_layernorm", "attn_rope", "post_attention_layernorm", "mlp_act", "add"];

/// How operations were timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// With events around each: the gap to the next launch is inside.
    Events,
    /// The kernels alone.
    KernelOnly,
    /// The table does not say.
    Unstated,
}

impl Timing {
    fn of(row: &Row<'_>, column: Option<&Column>) -> Result<Self, FitError> {
        match column.map(|column| row.text(column)) {
            None => Ok(Self::Unstated),
            Some("CUDA_EVENT") => Ok(Self::Events),
            Some("KERNEL_ONLY") => Ok(Self::KernelOnly),
            Some(other) => Err(row.fault(
                format!(
                    "column measurement_type: `{}`: expected CUDA_EVENT or KERNEL_ONLY",
                    super::sheet::shown(other)
                ),
                "leave rows out that were timed in another way",
            )),
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Events => "timed with events around each",
            Self::KernelOnly => "kernel time alone",
            Self::Unstated => "how they were timed is not stated",
        }
    }
}

/// What a table says of the model, the whole of it whatever the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// The file.
    pub file: String,
    /// Query heads.
    pub query_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the MLP; `None` of an attention table.
    pub intermediate: Option<u32>,
}

/// The linear and elementwise operations of one layer.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The model.
    pub shape: TableShape,
    /// Tensor-parallel ranks of which these are the times of one.
    pub ranks: u32,
    /// How they were timed.
    pub timing: Timing,
    /// Milliseconds of one layer by rows; the median where a size was measured several times.
    pub layer_ms: BTreeMap<u32, f64>,
    /// Operations with a column of their own.
    pub operations: u32,
    /// Those without one.
    pub without_column: Vec<&'static str>,
    /// Operations that every rank does whole, taken from the rows of one rank.
    pub from_one_rank: Vec<&'static str>,
    /// Rows of the table.
    pub rows: u64,
    /// Rows used.
    pub used: u64,
}

/// Whether the columns are those of such a table.
#[must_use]
pub fn is_linear(sheet: &Sheet) -> bool {
    sheet.has("num_tokens") && PRODUCTS.iter().any(|operation| sheet.has(&of_median(operation)))
}

/// Whether the columns are those of an attention table.
#[must_use]
pub fn is_attention(sheet: &Sheet) -> bool {
    sheet.has("prefill_chunk_size") && sheet.has("kv_cache_size")
}

fn of_median(operation: &str) -> String {
    format!("time_stats.{operation}.median")
}

/// The number of ranks to read: the one asked for, or the only one of the table.
fn ranks_of(sheet: &Sheet, column: &Column, asked: Option<u32>) -> Result<u32, FitError> {
    let mut found: Vec<u32> = sheet.rows().map(|row| row.count(column)).collect::<Result<_, _>>()?;
    found.sort_unstable();
    found.dedup();
    let words = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match (asked, &found[..]) {
        (Some(asked), _) if found.contains(&asked) => Ok(asked),
        (Some(asked), _) => Err(FitError::file(
            sheet.file(),
            format!("no row of {asked} tensor-parallel ranks: it has those of {words}"),
            "ask for one of them with --tp",
        )),
        (None, [only]) => Ok(*only),
        (None, _) => Err(FitError::file(
            sheet.file(),
            format!("rows of {words} tensor-parallel ranks in one table"),
            "say with --tp how many ranks the server has",
        )),
    }
}

fn timing_of(sheet: &Sheet, rows: &[Row<'_>]) -> Result<Timing, FitError> {
    let column = sheet.find("measurement_type");
    let mut timing = None;
    for row in rows {
        let found = Timing::of(row, column.as_ref())?;
        if *timing.get_or_insert(found) != found {
            let problem = "rows that were timed in two ways in one table";
            return Err(row.fault(problem, "give a file for each measurement_type: both may be named at once"));
        }
    }
    Ok(timing.unwrap_or(Timing::Unstated))
}

fn shape_of(sheet: &Sheet, names: [&str; 3], intermediate: Option<&str>) -> Result<TableShape, FitError> {
    let columns = [sheet.column(names[0])?, sheet.column(names[1])?, sheet.column(names[2])?];
    let intermediate = intermediate.map(|name| sheet.column(name)).transpose()?;
    let of_row = |row: &Row<'_>| -> Result<TableShape, FitError> {
        Ok(TableShape {
            file: sheet.file().to_owned(),
            query_heads: row.count(&columns[0])?,
            kv_heads: row.count(&columns[1])?,
            hidden: row.count(&columns[2])?,
            intermediate: intermediate.as_ref().map(|column| row.count(column)).transpose()?,
        })
    };
    let mut rows = sheet.rows();
    let first = of_row(&rows.next().expect("a table has a row"))?;
    for row in rows {
        if of_row(&row)? != first {
            return Err(row.fault("a row of another model than the one above", "give a file for each model"));
        }
    }
    Ok(first)
}

/// Reads a table of linear operations.
///
/// # Errors
/// A missing column, a cell that is no time, rows of several ranks or models and no word which is meant.
pub fn linear(sheet: &Sheet, ranks: Option<u32>) -> Result<Linear, FitError> {
    let shape = shape_of(sheet, ["n_head", "n_kv_head", "n_embd"], Some("n_expanded_embd"))?;
    let (tokens, rank_column) = (sheet.column("num_tokens")?, sheet.column("num_tensor_parallel_workers")?);
    let ranks = ranks_of(sheet, &rank_column, ranks)?;
    let mut columns = Vec::new();
    for operation in PRODUCTS {
        columns.push((operation, sheet.column(&of_median(operation))?));
    }
    let mut without_column = Vec::new();
    for operation in OTHERS {
        match sheet.find(&of_median(operation)) {
            Some(column) => columns.push((operation, column)),
            None => without_column.push(operation),
        }
    }
    let mut of_one_rank: BTreeMap<(u32, usize), Vec<f64>> = BTreeMap::new();
    let mut wanted = Vec::new();
    for row in sheet.rows() {
        let (of_rank, rows) = (row.count(&rank_column)?, row.count(&tokens)?);
        if rows == 0 {
            return Err(row.fault("column num_tokens: `0`: expected one row at least", "leave the row out"));
        }
        for (place, (_, column)) in columns.iter().enumerate() {
            if of_rank == 1
                && let Some(ms) = row.optional_quantity(column)?
            {
                of_one_rank.entry((rows, place)).or_default().push(ms);
            }
        }
        if of_rank == ranks {
            wanted.push((rows, row));
        }
    }
    let timing = timing_of(sheet, &wanted.iter().map(|(_, row)| *row).collect::<Vec<_>>())?;
    let mut from_one_rank = Vec::new();
    let mut measured: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (rows, row) in &wanted {
        let mut layer_ms = 0.0;
        for (place, (operation, column)) in columns.iter().enumerate() {
            let is_product = PRODUCTS.contains(operation);
            layer_ms += match row.optional_quantity(column)? {
                Some(_) if is_product => row.time(column)?,
                Some(ms) => ms,
                // What every rank does whole is measured once.
                None => {
                    let whole = of_one_rank.get(&(*rows, place)).filter(|_| !is_product);
                    let whole = whole.ok_or_else(|| {
                        let problem =
                            format!("column {}: nothing, and no row of one rank that has it", of_median(operation));
                        row.fault(problem, "give the table whole, or leave the row out")
                    })?;
                    if !from_one_rank.contains(operation) {
                        from_one_rank.push(operation);
                    }
                    median(whole)
                }
            };
        }
        measured.entry(*rows).or_default().push(layer_ms);
    }
    Ok(Linear {
        shape,
        ranks,
        timing,
        layer_ms: measured.into_iter().map(|(rows, ms)| (rows, median(&ms))).collect(),
        operations: columns.len() as u32,
        without_column,
        from_one_rank,
        rows: sheet.len() as u64,
        used: wanted.len() as u64,
    })
}

/// Attention of one layer.
#[derive(Clone, Debug)]
pub struct AttentionTimes {
    /// The model.
    pub shape: TableShape,
    /// Tensor-parallel ranks of which these are the times of one.
    pub ranks: u32,
    /// How it was timed.
    pub timing: Timing,
    /// The engine's backend, as the table names it.
    pub backend: String,
    /// Milliseconds by decoding requests and KV tokens of each, the KV write included.
    pub decode_ms: BTreeMap<(u32, u32), f64>,
    /// Milliseconds by chunk and KV tokens before it, the KV write included.
    pub prefill_ms: BTreeMap<(u32, u32), f64>,
    /// Rows of the table.
    pub rows: u64,
    /// Rows used.
    pub used: u64,
    /// Rows of other ranks.
    pub of_other_ranks: u64,
    /// Rows that hold prefills and decodes at once, or several prefills: no table of two quantities holds them.
    pub mixed: u64,
}

/// The columns of an attention table.
struct AttentionColumns {
    ranks: Column,
    batch: Column,
    chunk: Column,
    kv: Column,
    is_prefill: Column,
    prefill: Column,
    decode: Column,
    write: Option<Column>,
    mode: Option<Column>,
    backend: Column,
}

impl AttentionColumns {
    fn of(sheet: &Sheet) -> Result<Self, FitError> {
        Ok(Self {
            ranks: sheet.column("num_tensor_parallel_workers")?,
            batch: sheet.column("batch_size")?,
            chunk: sheet.column("prefill_chunk_size")?,
            kv: sheet.column("kv_cache_size")?,
            is_prefill: sheet.column("is_prefill")?,
            prefill: sheet.column(&of_median("attn_prefill"))?,
            decode: sheet.column(&of_median("attn_decode"))?,
            // Older tables have none: the backend writes while it attends.
            write: sheet.find(&of_median("attn_kv_cache_save")),
            mode: sheet.find("mode"),
            backend: sheet.column("attention_backend")?,
        })
    }

    fn is_mixed(&self, row: &Row<'_>) -> bool {
        self.mode.as_ref().is_some_and(|mode| row.text(mode).contains("mixed"))
    }

    fn write_ms(&self, row: &Row<'_>) -> Result<f64, FitError> {
        self.write.as_ref().map_or(Ok(0.0), |write| row.quantity(write))
    }
}

/// Reads an attention table.
///
/// Timing a KV write alone with events costs more than the write: in a prefill it shows ten times what the decode of one
/// request shows. So events count the write of a prefill as that of a decode of one request.
///
/// # Errors
/// As of [`linear`].
pub fn attention(sheet: &Sheet, ranks: Option<u32>) -> Result<AttentionTimes, FitError> {
    let shape = shape_of(sheet, ["n_q_head", "n_kv_head", "n_embd"], None)?;
    let columns = AttentionColumns::of(sheet)?;
    let ranks = ranks_of(sheet, &columns.ranks, ranks)?;
    let of_rank = |row: &Row<'_>| row.count(&columns.ranks).map(|found| found == ranks);
    let mut wanted = Vec::new();
    for row in sheet.rows() {
        if of_rank(&row)? {
            wanted.push(row);
        }
    }
    let timing = timing_of(sheet, &wanted)?;
    let backend = wanted.first().map_or("", |row| row.text(&columns.backend));
    let mut single_writes = Vec::new();
    let (mut decode, mut prefill) = (BTreeMap::<_, Vec<f64>>::new(), BTreeMap::<_, Vec<(f64, f64)>>::new());
    let (mut used, mut mixed) = (0, 0);
    for row in &wanted {
        if row.text(&columns.backend) != backend {
            return Err(row.fault("a row of another attention backend", "give a file for each backend"));
        }
        let (batch, chunk, kv) = (row.count(&columns.batch)?, row.count(&columns.chunk)?, row.count(&columns.kv)?);
        let is_prefill = match row.text(&columns.is_prefill) {
            "True" | "true" => true,
            "False" | "false" => false,
            other => {
                let found = super::sheet::shown(other);
                let problem = format!("column is_prefill: `{found}`: expected True or False");
                return Err(row.fault(problem, "correct the cell, or leave the row out"));
            }
        };
        if columns.is_mixed(row) || (is_prefill && batch != 1) {
            mixed += 1;
            continue;
        }
        let write_ms = columns.write_ms(row)?;
        if is_prefill {
            if chunk == 0 {
                return Err(row.fault("column prefill_chunk_size: `0` in a prefill", "correct the cell"));
            }
            prefill.entry((chunk, kv)).or_default().push((row.time(&columns.prefill)?, write_ms));
        } else {
            if batch == 0 {
                return Err(row.fault("column batch_size: `0` in a decode", "correct the cell"));
            }
            if batch == 1 {
                single_writes.push(write_ms);
            }
            decode.entry((batch, kv)).or_default().push(row.time(&columns.decode)? + write_ms);
        }
        used += 1;
    }
    let single_write_ms = Some(median(&single_writes)).filter(|ms| ms.is_finite());
    let of_prefill = |times: &[(f64, f64)]| {
        let written = |own_ms: f64| match (timing, single_write_ms) {
            (Timing::Events | Timing::Unstated, Some(single_ms)) => own_ms.min(single_ms),
            _ => own_ms,
        };
        median(&times.iter().map(|(ms, write_ms)| ms + written(*write_ms)).collect::<Vec<_>>())
    };
    Ok(AttentionTimes {
        shape,
        ranks,
        timing,
        backend: backend.trim_start_matches("AttentionBackend.").to_owned(),
        decode_ms: decode.iter().map(|(at, ms)| (*at, median(ms))).collect(),
        prefill_ms: prefill.iter().map(|(at, times)| (*at, of_prefill(times))).collect(),
        rows: sheet.len() as u64,
        used,
        of_other_ranks: sheet.len() as u64 - wanted.len() as u64,
        mixed,
    })
}
