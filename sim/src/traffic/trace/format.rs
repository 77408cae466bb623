//! Trace formats: telling them apart, and reading one row.

use std::collections::HashMap;

use calibrate::spelling::closest;
use serde::Deserialize;

use super::time::{self, TimeUnit};
use crate::engine::request::{Adapter, Segment, SharedPrefix};
use crate::limits::{ADAPTERS_MAX, REQUEST_TOKENS_MAX};
use crate::traffic::random::fnv1a64;

/// The format of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Comma-separated with a header line and named columns.
    Csv(Box<ColumnNames>),
    /// Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`, a date and time of day per row.
    Azure,
    /// Vidur: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds; lengths-only files lack the first column.
    Vidur,
    /// Mooncake: one JSON object a line with `timestamp` (ms), `input_length`, `output_length` and, where prompts share
    /// content, `hash_ids`.
    Mooncake,
}

/// The columns of a comma-separated trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    /// Arrival time.
    pub arrival: String,
    /// Prompt length, in tokens.
    pub prompt: String,
    /// Output length, in tokens.
    pub output: String,
    /// Unit of a numeric arrival time; `None` for a date and time of day.
    pub time_unit: Option<TimeUnit>,
    /// The columns of what requests carry beside their lengths.
    pub labels: LabelColumns,
}

/// The columns of labels; one that is not named is not read. An empty field means none (priority: 0).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelColumns {
    /// Priority, a whole number; smaller goes first.
    pub priority: Option<String>,
    /// Name of the adapter; the first new name in the file is adapter 0, the next one adapter 1.
    pub adapter: Option<String>,
    /// Name of the prefix that the prompt begins with, and its length in tokens.
    pub prefix: Option<[String; 2]>,
}

/// What is taken from the rows of a trace; columns that are not wanted need not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Arrival times.
    pub arrivals: bool,
    /// Prompt and output lengths, and what requests carry beside them.
    pub lengths: bool,
}

impl Wanted {
    /// Arrival times and lengths.
    pub const ALL: Self = Self { arrivals: true, lengths: true };
    /// Arrival times only.
    pub const ARRIVALS: Self = Self { arrivals: true, lengths: false };
    /// Lengths only.
    pub const LENGTHS: Self = Self { arrivals: false, lengths: true };
}

/// Which labels the rows of a trace bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Priorities.
    pub priorities: bool,
    /// Adapters.
    pub adapters: bool,
    /// Shared prefixes.
    pub prefixes: bool,
}

impl Brought {
    /// What either brings.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            priorities: self.priorities || other.priorities,
            adapters: self.adapters || other.adapters,
            prefixes: self.prefixes || other.prefixes,
        }
    }
}

impl TraceFormat {
    /// The labels that rows of this format bring. (Whether a Mooncake row has `hash_ids` shows when it is read.)
    #[must_use]
    pub fn brings(&self) -> Brought {
        match self {
            Self::Csv(columns) => Brought {
                priorities: columns.labels.priority.is_some(),
                adapters: columns.labels.adapter.is_some(),
                prefixes: columns.labels.prefix.is_some(),
            },
            Self::Azure | Self::Vidur => Brought::default(),
            Self::Mooncake => Brought { prefixes: true, ..Brought::default() },
        }
    }

    /// The format whose first line this is.
    pub(super) fn detect(first_line: &[u8]) -> Option<Self> {
        if first_line.first() == Some(&b'{') {
            return Some(Self::Mooncake);
        }
        let names = header_names(first_line);
        [Self::Azure, Self::Vidur].into_iter().find(|format| {
            let columns = format.columns().expect("both are comma-separated");
            [columns.prompt, columns.output].iter().all(|column| names.contains(column))
        })
    }

    /// The columns of a comma-separated format; `None` for JSON lines.
    fn columns(&self) -> Option<ColumnNames> {
        let names = |[arrival, prompt, output]: [&str; 3], time_unit| ColumnNames {
            arrival: arrival.to_owned(),
            prompt: prompt.to_owned(),
            output: output.to_owned(),
            time_unit,
            labels: LabelColumns::default(),
        };
        match self {
            Self::Csv(columns) => Some((**columns).clone()),
            Self::Azure => Some(names(["TIMESTAMP", "ContextTokens", "GeneratedTokens"], None)),
            Self::Vidur => {
                Some(names(["arrived_at", "num_prefill_tokens", "num_decode_tokens"], Some(TimeUnit::Seconds)))
            }
            Self::Mooncake => None,
        }
    }
}

/// One usable row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Arrival in nanoseconds since an epoch of the file's own choosing; 0 where times are not wanted.
    pub(super) time_ns: i64,
    /// Prompt length, in tokens; 0 where lengths are not wanted.
    pub(super) prompt_tokens: u32,
    /// Output length, in tokens; 0 where lengths are not wanted.
    pub(super) output_tokens: u32,
    /// 0 where the file gives none.
    pub(super) priority: i32,
    pub(super) adapter: Option<Adapter>,
    pub(super) shared: SharedPrefix,
}

/// Why a row cannot be used.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) column: String,
    pub(super) problem: String,
    /// What would read all such rows; `None` where the row itself is at fault.
    pub(super) help: Option<String>,
}

impl Fault {
    pub(super) fn new(column: impl Into<String>, problem: String) -> Self {
        Self { column: column.into(), problem, help: None }
    }
}

/// A wanted column that the header lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingColumn {
    pub(super) column: String,
    pub(super) problem: String,
    /// What to do, where the header gives it away.
    pub(super) help: Option<String>,
}

/// Reads the rows of one file, once its format and header are known.
#[derive(Debug)]
pub(super) enum RowParser {
    Csv(Box<CsvParser>),
    JsonLines { wanted: Wanted },
}

/// Reads the rows of a comma-separated file.
#[derive(Debug)]
pub(super) struct CsvParser {
    /// The columns looked for, by name, with their places in a row; those not wanted have none.
    columns: [(String, Option<usize>); COLUMNS],
    /// The same, by place: `(place, which column)`.
    by_place: Vec<(usize, usize)>,
    time_unit: Option<TimeUnit>,
    /// Fields of a row.
    width: usize,
    adapters: AdapterNames,
}

/// Places of the columns in [`CsvParser::columns`].
const ARRIVAL: usize = 0;
const PROMPT: usize = 1;
const OUTPUT: usize = 2;
const PRIORITY: usize = 3;
const ADAPTER: usize = 4;
const PREFIX: usize = 5;
const PREFIX_TOKENS: usize = 6;
const COLUMNS: usize = 7;

impl RowParser {
    /// Prepares for a file with this first line. Comma-separated files have used that line up afterwards.
    ///
    /// # Errors
    /// What the header lacks.
    pub(super) fn new(format: &TraceFormat, first_line: &[u8], wanted: Wanted) -> Result<Self, MissingColumn> {
        let Some(ColumnNames { arrival, prompt, output, time_unit, labels }) = format.columns() else {
            return Ok(Self::JsonLines { wanted });
        };
        let names = header_names(first_line);
        let place = |column: Option<String>, is_wanted: bool| {
            let Some(column) = column.filter(|_| is_wanted) else { return Ok((String::new(), None)) };
            match names.iter().position(|name| *name == column) {
                Some(place) => Ok((column, Some(place))),
                None => Err(missing_column(&column, &names, first_line)),
            }
        };
        let (prefix, prefix_tokens) = labels.prefix.map_or((None, None), |[name, tokens]| (Some(name), Some(tokens)));
        let columns = [
            place(Some(arrival), wanted.arrivals)?,
            place(Some(prompt), wanted.lengths)?,
            place(Some(output), wanted.lengths)?,
            place(labels.priority, wanted.lengths)?,
            place(labels.adapter, wanted.lengths)?,
            place(prefix, wanted.lengths)?,
            place(prefix_tokens, wanted.lengths)?,
        ];
        let mut by_place: Vec<(usize, usize)> =
            (0..).zip(&columns).filter_map(|(which, (_, place))| place.map(|place| (place, which))).collect();
        by_place.sort_unstable();
        let parser = CsvParser { columns, by_place, time_unit, width: names.len(), adapters: AdapterNames::default() };
        Ok(Self::Csv(Box::new(parser)))
    }

    /// Whether the first line names columns and holds no row.
    pub(super) fn has_header(&self) -> bool {
        matches!(self, Self::Csv(_))
    }

    /// Reads one row.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Row, Fault> {
        match self {
            Self::Csv(csv) => csv.parse(line),
            Self::JsonLines { wanted } => parse_json(line, *wanted),
        }
    }
}

impl CsvParser {
    fn parse(&mut self, line: &[u8]) -> Result<Row, Fault> {
        let mut found: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        let mut fields = 0;
        let mut wanted = self.by_place.iter().peekable();
        for field in Fields(Some(line)) {
            while let Some((_, which)) = wanted.next_if(|(place, _)| *place == fields) {
                found[*which] = field;
            }
            fields += 1;
        }
        if fields != self.width {
            let problem = format!("expected {} fields, found {fields}", self.width);
            return Err(Fault::new("row", problem));
        }
        let time_ns = match &self.columns[ARRIVAL] {
            (_, None) => 0,
            (column, Some(_)) => parse_time(found[ARRIVAL], column, self.time_unit)?,
        };
        let tokens = |which: usize| match &self.columns[which] {
            (_, None) => Ok(0),
            (column, Some(_)) => token_count(column, whole(found[which]), || shown(found[which])),
        };
        let (prompt_tokens, output_tokens) = (tokens(PROMPT)?, tokens(OUTPUT)?);
        let priority = self.priority(found[PRIORITY])?;
        let shared = match found[PREFIX] {
            // A prompt that is shorter than its prefix shares what it has of it.
            name if !name.is_empty() => {
                let end_tokens = tokens(PREFIX_TOKENS)?.min(prompt_tokens);
                SharedPrefix::new(&[Segment { content: fnv1a64(name.iter().copied()), end_tokens }])
            }
            _ => SharedPrefix::default(),
        };
        let adapter = self.adapters.number(found[ADAPTER], &self.columns[ADAPTER].0)?;
        Ok(Row { time_ns, prompt_tokens, output_tokens, priority, adapter, shared })
    }

    fn priority(&self, text: &[u8]) -> Result<i32, Fault> {
        if text.is_empty() {
            return Ok(0);
        }
        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let problem = format!("expected a whole number from {} to {}, found {}", i32::MIN, i32::MAX, shown(text));
            Fault::new(&self.columns[PRIORITY].0, problem)
        })
    }
}

/// Adapters by name, numbered in order of their first request.
#[derive(Debug, Default)]
struct AdapterNames(HashMap<Vec<u8>, u32>);

impl AdapterNames {
    /// The number of the adapter of this name; `None` for an empty one.
    fn number(&mut self, name: &[u8], column: &str) -> Result<Option<Adapter>, Fault> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(&number) = self.0.get(name) {
            return Ok(Some(Adapter(number)));
        }
        let number = self.0.len() as u32;
        if number == ADAPTERS_MAX {
            let problem =
                format!("expected at most {ADAPTERS_MAX} different adapters, found one more: {}", shown(name));
            return Err(Fault::new(column, problem));
        }
        self.0.insert(name.to_owned(), number);
        Ok(Some(Adapter(number)))
    }
}

/// A whole number; `374.0` is one.
fn whole(text: &[u8]) -> Option<u64> {
    // Nineteen digits always have room.
    if (1..20).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        return Some(text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')));
    }
    std::str::from_utf8(text.strip_suffix(b".0").unwrap_or(text)).ok()?.parse().ok()
}

fn parse_time(text: &[u8], column: &str, unit: Option<TimeUnit>) -> Result<i64, Fault> {
    let parsed = match unit {
        None => time::parse_date_time(text),
        Some(unit) => time::parse_number(text, unit),
    };
    parsed.ok_or_else(|| {
        let (problem, help) = time_fault(text, unit);
        Fault { help, ..Fault::new(column, problem) }
    })
}

/// What is wrong with a time, and the unit that would read it.
fn time_fault(text: &[u8], unit: Option<TimeUnit>) -> (String, Option<String>) {
    let found = shown(text);
    let set = |unit: &str| format!("set `time_unit = \"{unit}\"` beside `columns`");
    let holds = TimeUnit::that_holds(text);
    match unit {
        None => (
            format!("expected a date and time such as `2023-11-16 18:15:46.680590`, found {found}"),
            holds.map(|unit| format!("if these are {}, {}", unit.name(), set(unit.code()))),
        ),
        Some(unit) if time::parse_date_time(text).is_some() => {
            (format!("expected a number of {}, found {found}, a date and time", unit.name()), Some(set("date")))
        }
        Some(unit) => match holds {
            Some(finer) => (
                format!("{found} is too large for {}", unit.name()),
                Some(format!("if these are {}, {}", finer.name(), set(finer.code()))),
            ),
            None => (format!("expected a number of {}, found {found}", unit.name()), None),
        },
    }
}

/// What is read of a Mooncake row; everything else in it is passed over.
#[derive(Deserialize)]
struct MooncakeRow {
    timestamp: Option<serde_json::Value>,
    input_length: Option<serde_json::Value>,
    output_length: Option<serde_json::Value>,
    hash_ids: Option<serde_json::Value>,
}

fn parse_json(line: &[u8], wanted: Wanted) -> Result<Row, Fault> {
    let row: MooncakeRow = serde_json::from_slice(line).map_err(|error| {
        let kind = kind_of(&error);
        Fault::new("row", format!("expected one JSON object, found a fault at byte {} ({kind})", error.column()))
    })?;
    let text_of = |value: &Option<serde_json::Value>| value.as_ref().map_or("nothing".to_owned(), |v| format!("`{v}`"));
    let time_ns = if wanted.arrivals {
        let unit = TimeUnit::Milliseconds;
        let time = row.timestamp.as_ref().and_then(serde_json::Value::as_f64).and_then(|ms| time::from_f64(ms, unit));
        time.ok_or_else(|| {
            let problem = format!("expected a number of milliseconds, found {}", text_of(&row.timestamp));
            Fault::new("timestamp", problem)
        })?
    } else {
        0
    };
    let tokens = |column: &str, value: &Option<serde_json::Value>| {
        if !wanted.lengths {
            return Ok(0);
        }
        token_count(column, value.as_ref().and_then(serde_json::Value::as_u64), || text_of(value))
    };
    let (prompt_tokens, output_tokens) =
        (tokens("input_length", &row.input_length)?, tokens("output_length", &row.output_length)?);
    let shared = match &row.hash_ids {
        Some(ids) if wanted.lengths && !ids.is_null() => mooncake_prefix(ids, prompt_tokens)?,
        _ => SharedPrefix::default(),
    };
    Ok(Row { time_ns, prompt_tokens, output_tokens, priority: 0, adapter: None, shared })
}

/// Tokens that one of a Mooncake row's `hash_ids` stands for.
const MOONCAKE_BLOCK_TOKENS: u32 = 512;

/// What `hash_ids` say of a prompt. Each names the content of its block and of all before it; the last block may be
/// partial. Where there are fewer than blocks, the rest of the prompt is nobody else's.
fn mooncake_prefix(ids: &serde_json::Value, prompt_tokens: u32) -> Result<SharedPrefix, Fault> {
    let numbers: Option<Vec<u64>> = ids.as_array().and_then(|ids| ids.iter().map(serde_json::Value::as_u64).collect());
    let numbers = numbers.ok_or_else(|| {
        let found = shown(ids.to_string().as_bytes());
        Fault::new("hash_ids", format!("expected a list of whole numbers from 0 up, found {found}"))
    })?;
    let blocks = prompt_tokens.div_ceil(MOONCAKE_BLOCK_TOKENS) as usize;
    if numbers.len() > blocks {
        let problem = format!(
            "expected at most {blocks}, one for each {MOONCAKE_BLOCK_TOKENS} of {prompt_tokens} tokens, found {}",
            numbers.len()
        );
        return Err(Fault::new("hash_ids", problem));
    }
    let segments = numbers.iter().zip(1_u32..).map(|(&content, block)| {
        let end_tokens = prompt_tokens.min(block.saturating_mul(MOONCAKE_BLOCK_TOKENS));
        Segment { content, end_tokens }
    });
    Ok(SharedPrefix::new(&segments.collect::<Vec<_>>()))
}

fn kind_of(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "the line ends early",
        serde_json::error::Category::Data => "not an object",
        _ => "not JSON",
    }
}

fn token_count(column: &str, parsed: Option<u64>, found: impl Fn() -> String) -> Result<u32, Fault> {
    match parsed {
        Some(tokens) if (1..=u64::from(REQUEST_TOKENS_MAX)).contains(&tokens) => Ok(tokens as u32),
        _ => {
            let problem =
                format!("expected a whole number of tokens from 1 to {REQUEST_TOKENS_MAX}, found {}", found());
            Err(Fault::new(column, problem))
        }
    }
}

/// The fields of one comma-separated line, blanks and surrounding quotes taken off. A comma inside quotes does not
/// separate; quotes do not reach over a line end.
struct Fields<'line>(Option<&'line [u8]>);

impl<'line> Iterator for Fields<'line> {
    type Item = &'line [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0?;
        let mut quoted = false;
        let end = rest.iter().position(|&byte| {
            quoted ^= byte == b'"';
            byte == b',' && !quoted
        });
        self.0 = end.map(|end| &rest[end + 1..]);
        let field = rest[..end.unwrap_or(rest.len())].trim_ascii();
        Some(field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field))
    }
}

fn header_names(line: &[u8]) -> Vec<String> {
    Fields(Some(line)).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn missing_column(column: &str, names: &[String], first_line: &[u8]) -> MissingColumn {
    let names_in_place: Vec<&str> = names.iter().map(String::as_str).collect();
    let help = separator_help(first_line)
        .or_else(|| closest(column, &names_in_place).map(|name| format!("did you mean `{}`?", name.escape_debug())));
    let problem = format!("expected a column `{column}`, found {}", list(names));
    MissingColumn { column: column.to_owned(), problem, help }
}

/// What to do about a header whose names something else than a comma separates.
pub(super) fn separator_help(first_line: &[u8]) -> Option<String> {
    let is_there = |byte: u8| first_line.contains(&byte);
    let found = match (is_there(b';'), is_there(b'\t')) {
        _ if is_there(b',') => return None,
        (true, _) => "`;`",
        (_, true) => "tabs",
        _ => return None,
    };
    Some(format!("the separator must be a comma, and this line has {found}: write the file with commas"))
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(40)]);
    format!("`{}`", text.escape_debug())
}

/// Names for a message, at most eight of them.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| shown(name.as_bytes())).collect();
    if names.len() > SHOWN {
        text.push(format!("and {} more", names.len() - SHOWN));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_the_first_line() {
        assert_eq!(TraceFormat::detect(b"TIMESTAMP,ContextTokens,GeneratedTokens"), Some(TraceFormat::Azure));
        assert_eq!(TraceFormat::detect(b"arrived_at,num_prefill_tokens,num_decode_tokens"), Some(TraceFormat::Vidur));
        let lengths_only = b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio";
        assert_eq!(TraceFormat::detect(lengths_only), Some(TraceFormat::Vidur));
        assert_eq!(TraceFormat::detect(br#"{"timestamp": 0}"#), Some(TraceFormat::Mooncake));
        assert_eq!(TraceFormat::detect(b"time,in,out"), None);
    }

    #[test]
    fn fields_honour_quotes() {
        let fields = |line: &str| Fields(Some(line.as_bytes())).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(fields(r#" 1 ,"a,b", "c" ,"#), [&b"1"[..], b"a,b", b"c", b""]);
        assert_eq!(fields(r#""open,1,2"#).len(), 1);
    }
}
