//! Trace formats: telling them apart, and reading one row.

use calibrate::spelling::closest;
use serde::Deserialize;

use super::time::{self, TimeUnit};
use crate::limits::REQUEST_TOKENS_MAX;

/// The format of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Comma-separated with a header line and named columns.
    Csv(ColumnNames),
    /// Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`, a date and time of day per row.
    Azure,
    /// Vidur: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds; lengths-only files lack the first column.
    Vidur,
    /// Mooncake: one JSON object a line with `timestamp` (ms), `input_length`, `output_length`; `hash_ids` are ignored.
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
}

/// What is taken from the rows of a trace; columns that are not wanted need not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Arrival times.
    pub arrivals: bool,
    /// Prompt and output lengths.
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

impl TraceFormat {
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
        };
        match self {
            Self::Csv(columns) => Some(columns.clone()),
            Self::Azure => Some(names(["TIMESTAMP", "ContextTokens", "GeneratedTokens"], None)),
            Self::Vidur => {
                Some(names(["arrived_at", "num_prefill_tokens", "num_decode_tokens"], Some(TimeUnit::Seconds)))
            }
            Self::Mooncake => None,
        }
    }
}

/// One usable row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Arrival in nanoseconds since an epoch of the file's own choosing; 0 where times are not wanted.
    pub(super) time_ns: i64,
    /// Prompt length, in tokens; 0 where lengths are not wanted.
    pub(super) prompt_tokens: u32,
    /// Output length, in tokens; 0 where lengths are not wanted.
    pub(super) output_tokens: u32,
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
    Csv { columns: ColumnNames, places: [Option<usize>; 3], width: usize },
    JsonLines { wanted: Wanted },
}

impl RowParser {
    /// Prepares for a file with this first line. Comma-separated files have used that line up afterwards.
    ///
    /// # Errors
    /// What the header lacks.
    pub(super) fn new(format: &TraceFormat, first_line: &[u8], wanted: Wanted) -> Result<Self, MissingColumn> {
        let Some(columns) = format.columns() else { return Ok(Self::JsonLines { wanted }) };
        let names = header_names(first_line);
        let place = |column: &str, is_wanted: bool| match names.iter().position(|name| name == column) {
            _ if !is_wanted => Ok(None),
            Some(place) => Ok(Some(place)),
            None => Err(missing_column(column, &names, first_line)),
        };
        let places = [
            place(&columns.arrival, wanted.arrivals)?,
            place(&columns.prompt, wanted.lengths)?,
            place(&columns.output, wanted.lengths)?,
        ];
        Ok(Self::Csv { places, width: names.len(), columns })
    }

    /// Whether the first line names columns and holds no row.
    pub(super) fn has_header(&self) -> bool {
        matches!(self, Self::Csv { .. })
    }

    /// Reads one row.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Row, Fault> {
        match self {
            Self::Csv { columns, places, width } => parse_csv(line, columns, *places, *width),
            Self::JsonLines { wanted } => parse_json(line, *wanted),
        }
    }
}

fn parse_csv(line: &[u8], columns: &ColumnNames, places: [Option<usize>; 3], width: usize) -> Result<Row, Fault> {
    let mut found: [&[u8]; 3] = [&[]; 3];
    let mut fields = 0;
    for field in Fields(Some(line)) {
        if let Some(which) = places.iter().position(|&place| place == Some(fields)) {
            found[which] = field;
        }
        fields += 1;
    }
    if fields != width {
        let problem = format!("expected {width} fields, found {fields}");
        return Err(Fault::new("row", problem));
    }
    let time_ns = match places[0] {
        None => 0,
        Some(_) => parse_time(found[0], columns)?,
    };
    let tokens = |which: usize, column: &str| {
        if places[which].is_none() {
            return Ok(0);
        }
        let text = found[which];
        let number = std::str::from_utf8(text.strip_suffix(b".0").unwrap_or(text)).ok();
        token_count(column, number.and_then(|text| text.parse().ok()), || shown(text))
    };
    Ok(Row { time_ns, prompt_tokens: tokens(1, &columns.prompt)?, output_tokens: tokens(2, &columns.output)? })
}

fn parse_time(text: &[u8], columns: &ColumnNames) -> Result<i64, Fault> {
    let parsed = match columns.time_unit {
        None => time::parse_date_time(text),
        Some(unit) => time::parse_number(text, unit),
    };
    parsed.ok_or_else(|| {
        let (problem, help) = time_fault(text, columns.time_unit);
        Fault { help, ..Fault::new(&columns.arrival, problem) }
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
    Ok(Row { time_ns, prompt_tokens, output_tokens })
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
