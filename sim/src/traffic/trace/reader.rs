//! Plays a trace: order, origin, rate and row limit.

use std::fs::File;
use std::io::Read;
use std::vec;

use super::format::{Fault, MissingColumn, Row, RowParser, TraceFormat, Wanted, separator_help};
use super::lines::Lines;
use super::{BadRows, TraceSource, Unsorted};
use crate::time::{SimTime, nearest};
use crate::traffic::{Request, TrafficError};

/// How a scenario names the columns of a trace.
const NAME_COLUMNS: &str = "columns = { arrival = \"…\", prompt = \"…\", output = \"…\" }";

/// The rows left out as bad so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// How many.
    pub count: u64,
    /// Line number of the first one, from 1.
    pub first_line: Option<u64>,
    /// The rank whose trace has that line; `None` where ranks have no traces of their own.
    pub rank: Option<u32>,
}

impl SkippedRows {
    /// These rows and those of another trace; the first one is that of the first trace that has any.
    pub(in crate::traffic) fn and(self, other: Self) -> Self {
        let first = if self.first_line.is_some() { self } else { other };
        Self { count: self.count + other.count, ..first }
    }
}

/// Reads a trace row by row. Arrivals count from the first row, so that the first request arrives at zero; unwanted
/// figures are zero.
pub struct TraceReader {
    file: String,
    format: TraceFormat,
    wanted: Wanted,
    unsorted: Unsorted,
    bad_rows: BadRows,
    rate_multiplier: f64,
    rows_left: u64,
    rows: u64,
    skipped: SkippedRows,
    lines: Lines,
    parser: RowParser,
    /// The first line is a row and has not been read yet.
    first_line_pending: bool,
    sorted: Option<vec::IntoIter<Row>>,
    origin_ns: Option<i64>,
    previous_ns: i64,
}

impl TraceReader {
    /// Opens a trace and reads its first line.
    ///
    /// # Errors
    /// A file that cannot be opened or read, holds nothing, is of no known format or lacks a wanted column.
    pub fn open(source: &TraceSource, wanted: Wanted) -> Result<Self, TrafficError> {
        let open = |source_error| TrafficError::Open { file: source.shown(), source: source_error };
        let file = File::open(&source.path).map_err(open)?;
        Self::from_input(Box::new(file), source, wanted)
    }

    /// Reads a trace from elsewhere than its file, and its first line at once.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_input(input: Box<dyn Read + Send>, source: &TraceSource, wanted: Wanted) -> Result<Self, TrafficError> {
        let file = || source.shown();
        let mut lines = Lines::new(input);
        match lines.advance() {
            Ok(true) => {}
            Ok(false) => return Err(TrafficError::Empty { file: file(), skipped: 0 }),
            Err(error) => return Err(TrafficError::Read { file: file(), line: 0, source: error }),
        }
        let detected = || TraceFormat::detect(lines.text());
        let format = source.format.clone().or_else(detected).ok_or_else(|| {
            let help = separator_help(lines.text()).unwrap_or_else(|| format!("give the column names: {NAME_COLUMNS}"));
            let problem = format!("this is no known trace format; the first line is {}", lines.excerpt());
            TrafficError::Header { file: file(), problem, help }
        })?;
        let parser = RowParser::new(&format, lines.text(), wanted).map_err(|missing| {
            let MissingColumn { column, problem, help } = missing;
            let help = help.unwrap_or_else(|| match format {
                TraceFormat::Csv(_) => "write the names as the first line of the file has them".to_owned(),
                _ => format!("set `format`, or name the columns: {NAME_COLUMNS}"),
            });
            TrafficError::Column { file: file(), column, problem, help }
        })?;
        Ok(Self {
            file: file(),
            format,
            wanted,
            unsorted: source.unsorted,
            bad_rows: source.bad_rows,
            rate_multiplier: source.rate_multiplier,
            rows_left: source.limit.unwrap_or(u64::MAX),
            rows: 0,
            skipped: SkippedRows::default(),
            first_line_pending: !parser.has_header(),
            lines,
            parser,
            sorted: None,
            origin_ns: None,
            previous_ns: i64::MIN,
        })
    }

    /// The format given or found.
    #[must_use]
    pub fn format(&self) -> &TraceFormat {
        &self.format
    }

    /// Rows left out so far; complete once the trace has ended.
    #[must_use]
    pub fn skipped_rows(&self) -> SkippedRows {
        self.skipped
    }

    /// Usable rows given so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The next usable row of the file, in file order.
    fn read_row(&mut self) -> Result<Option<Row>, TrafficError> {
        loop {
            if !std::mem::take(&mut self.first_line_pending) {
                let line = self.lines.number();
                let failed = |source| TrafficError::Read { file: self.file.clone(), line, source };
                if !self.lines.advance().map_err(failed)? {
                    return Ok(None);
                }
            }
            let parsed = if self.lines.is_cut() {
                Err(Fault::new("row", "this line is longer than 1 MiB".to_owned()))
            } else {
                self.parser.parse(self.lines.text())
            };
            let line = self.lines.number();
            match (parsed, self.bad_rows) {
                (Ok(row), _) => return Ok(Some(row)),
                (Err(_), BadRows::Skip) => {
                    self.skipped.count += 1;
                    self.skipped.first_line.get_or_insert(line);
                }
                (Err(Fault { column, problem, help }), BadRows::Refuse) => {
                    const ROW_HELP: &str =
                        "mend the row, or set `bad_rows = \"skip\"` to leave such rows out and count them";
                    let (file, text) = (self.file.clone(), self.lines.excerpt());
                    let help = help.unwrap_or_else(|| ROW_HELP.to_owned());
                    let problem = format!("{column}: {problem}");
                    return Err(TrafficError::BadRow { file, line, problem, text, help });
                }
            }
        }
    }

    fn sort_all(&mut self) -> Result<vec::IntoIter<Row>, TrafficError> {
        let mut rows = Vec::new();
        while let Some(row) = self.read_row()? {
            rows.push(row);
        }
        rows.sort_by_key(|row| row.time_ns);
        Ok(rows.into_iter())
    }

    fn next_row(&mut self) -> Result<Option<Row>, TrafficError> {
        if self.unsorted == Unsorted::Refuse || !self.wanted.arrivals {
            return self.read_row();
        }
        if self.sorted.is_none() {
            self.sorted = Some(self.sort_all()?);
        }
        Ok(self.sorted.as_mut().and_then(Iterator::next))
    }

    /// The next request; `None` at the end or at the row limit.
    ///
    /// # Errors
    /// A bad row, a row out of order, a failed read, and a trace without any usable row. Not to be called again then.
    pub fn next_request(&mut self) -> Result<Option<Request>, TrafficError> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let Some(row) = self.next_row()? else {
            if self.rows == 0 {
                return Err(TrafficError::Empty { file: self.file.clone(), skipped: self.skipped.count });
            }
            return Ok(None);
        };
        let origin_ns = *self.origin_ns.get_or_insert(row.time_ns);
        if self.wanted.arrivals && row.time_ns < self.previous_ns {
            let earlier_by_s = (i128::from(self.previous_ns) - i128::from(row.time_ns)) as f64 / 1e9;
            return Err(TrafficError::Unsorted { file: self.file.clone(), line: self.lines.number(), earlier_by_s });
        }
        self.previous_ns = row.time_ns;
        self.rows_left -= 1;
        self.rows += 1;
        // In order, so never below the origin.
        let since_ns = row.time_ns.abs_diff(origin_ns);
        let arrival = if (self.rate_multiplier - 1.0).abs() < f64::EPSILON {
            SimTime(since_ns)
        } else {
            SimTime(nearest(since_ns as f64 / self.rate_multiplier))
        };
        let Row { prompt_tokens, output_tokens, priority, adapter, shared, .. } = row;
        Ok(Some(Request { arrival, prompt_tokens, output_tokens, priority, adapter, shared, rank: None }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::super::{ColumnNames, LabelColumns, TimeUnit};
    use super::*;

    fn source() -> TraceSource {
        TraceSource {
            path: "t.csv".into(),
            format: None,
            rate_multiplier: 1.0,
            limit: None,
            unsorted: Unsorted::Refuse,
            bad_rows: BadRows::Refuse,
        }
    }

    type Rows = Vec<(u64, u32, u32)>;

    fn requests(text: &str, source: &TraceSource) -> Result<Vec<Request>, TrafficError> {
        let mut reader = TraceReader::from_input(Box::new(Cursor::new(text.to_owned())), source, Wanted::ALL)?;
        std::iter::from_fn(|| reader.next_request().transpose()).collect()
    }

    fn read(bytes: &[u8], source: &TraceSource, wanted: Wanted) -> Result<(Rows, SkippedRows), TrafficError> {
        let mut reader = TraceReader::from_input(Box::new(Cursor::new(bytes.to_vec())), source, wanted)?;
        let mut rows = Vec::new();
        while let Some(request) = reader.next_request()? {
            rows.push((request.arrival.0, request.prompt_tokens, request.output_tokens));
        }
        Ok((rows, reader.skipped_rows()))
    }

    fn rows(text: &str) -> Rows {
        read(text.as_bytes(), &source(), Wanted::ALL).expect("reads").0
    }

    fn fault(text: &str) -> String {
        read(text.as_bytes(), &source(), Wanted::ALL).expect_err("refused").to_string()
    }

    const AZURE_2023: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\
                              2023-11-16 18:15:50.9951690,396,109";
    const VIDUR: &str = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n";

    #[test]
    fn every_format_gives_the_same_requests() {
        let expected = [(0, 374, 44), (4_314_579_000, 396, 109)];
        assert_eq!(rows(AZURE_2023), expected);
        assert_eq!(rows(VIDUR), expected);
        let azure_2024 = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,374,44\n\
                          2024-05-10 00:00:04.324509+00:00,396,109\n";
        assert_eq!(rows(azure_2024), expected);
        let mooncake = "{\"timestamp\": 27482, \"input_length\": 374, \"output_length\": 44, \"hash_ids\": [1]}\n\
                        {\"timestamp\": 31796.579, \"input_length\": 396, \"output_length\": 109, \"hash_ids\": []}";
        assert_eq!(rows(mooncake), expected);
    }

    #[test]
    fn named_columns_and_units() {
        let columns = ColumnNames {
            arrival: "arrival_time_ns".to_owned(),
            prompt: "input_toks".to_owned(),
            output: "output_toks".to_owned(),
            time_unit: Some(TimeUnit::Nanoseconds),
            labels: LabelColumns::default(),
        };
        let source = TraceSource { format: Some(TraceFormat::Csv(Box::new(columns))), ..source() };
        let text = b"id,output_toks,arrival_time_ns,input_toks\na,5,100,7\nb,6,150,8\n";
        assert_eq!(read(text, &source, Wanted::ALL).expect("reads").0, [(0, 7, 5), (50, 8, 6)]);
        let missing = read(b"id,out\n", &source, Wanted::ALL).expect_err("refused").to_string();
        assert_eq!(missing, "t.csv:1: expected a column `arrival_time_ns`, found `id`, `out`");
    }

    fn labelled() -> TraceSource {
        let labels = LabelColumns {
            priority: Some("class".to_owned()),
            adapter: Some("lora".to_owned()),
            prefix: Some(["template", "template_tokens"].map(str::to_owned)),
        };
        let TraceSource { format: Some(TraceFormat::Csv(columns)), .. } = named(Some(TimeUnit::Seconds)) else {
            unreachable!("columns are named")
        };
        TraceSource { format: Some(TraceFormat::Csv(Box::new(ColumnNames { labels, ..*columns }))), ..source() }
    }

    #[test]
    fn label_columns_are_read_and_may_be_empty() {
        let text = "ts,class,prompt_len,lora,gen_len,template,template_tokens\n0,-1,50,sql,5,system,40\n\
                    1,,30,,5,,\n2,7,30,chat,5,system,40\n3,0,30,sql,5,other,20\n";
        let requests = requests(text, &labelled()).expect("reads");
        assert_eq!(requests.iter().map(|request| request.priority).collect::<Vec<_>>(), [-1, 0, 7, 0]);
        let adapters: Vec<_> = requests.iter().map(|request| request.adapter.map(|adapter| adapter.0)).collect();
        assert_eq!(adapters, [Some(0), None, Some(1), Some(0)]);
        let segments: Vec<_> = requests.iter().map(|request| request.shared.segments()).collect();
        assert_eq!(segments[0][0].end_tokens, 40);
        assert_eq!(segments[1], []);
        assert_eq!(
            (segments[2][0].content, segments[2][0].end_tokens),
            (segments[0][0].content, 30),
            "cut at the prompt"
        );
        assert_ne!(segments[3][0].content, segments[0][0].content);
    }

    #[test]
    fn bad_labels_name_their_column() {
        let fault = |row: &str| {
            let text = format!("ts,prompt_len,gen_len,class,lora,template,template_tokens\n{row}\n");
            requests(&text, &labelled()).expect_err("refused").to_string()
        };
        assert!(
            fault("0,9,9,high,,,")
                .contains("class: expected a whole number from -2147483648 to 2147483647, found `high`")
        );
        assert!(fault("0,9,9,1.5,,,").contains("class: expected a whole number"));
        assert!(fault("0,9,9,,,a,").contains("template_tokens: expected a whole number of tokens"));
        assert!(fault("0,9,9,,,a,0").contains("template_tokens: expected a whole number of tokens"));
        let missing = requests("ts,prompt_len,gen_len\n", &labelled()).expect_err("refused").to_string();
        assert!(missing.contains("expected a column `class`"), "{missing}");
    }

    #[test]
    fn hash_ids_name_blocks_of_512_tokens() {
        let row = |tokens: u32, ids: &str| {
            format!("{{\"timestamp\": 0, \"input_length\": {tokens}, \"output_length\": 1, \"hash_ids\": {ids}}}\n")
        };
        let text = [row(1100, "[7, 8, 9]"), row(1024, "[7, 10]"), row(600, "[7]"), row(600, "null"), row(600, "[]")];
        let requests = requests(&text.concat(), &source()).expect("reads");
        let segments: Vec<Vec<(u64, u32)>> = requests
            .iter()
            .map(|request| request.shared.segments().iter().map(|s| (s.content, s.end_tokens)).collect())
            .collect();
        assert_eq!(segments[0], [(7, 512), (8, 1024), (9, 1100)]);
        assert_eq!(segments[1], [(7, 512), (10, 1024)]);
        assert_eq!(segments[2..], [vec![(7, 512)], vec![], vec![]]);
        let problem = |tokens, ids| fault(&row(tokens, ids));
        assert!(
            problem(1024, "[1, 2, 3]")
                .contains("hash_ids: expected at most 2, one for each 512 of 1024 tokens, found 3")
        );
        assert!(
            problem(1024, "[1, -2]").contains("hash_ids: expected a list of whole numbers from 0 up, found `[1,-2]`")
        );
        assert!(problem(1024, "5").contains("hash_ids: expected a list"));
    }

    #[test]
    fn unwanted_columns_may_be_missing_or_bad() {
        let lengths = b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n";
        assert_eq!(read(lengths, &source(), Wanted::LENGTHS).expect("reads").0, [(0, 3772, 54)]);
        let no_lengths = b"arrived_at,num_prefill_tokens,num_decode_tokens\n1,0,0\n2,0,0\n";
        assert_eq!(read(no_lengths, &source(), Wanted::ARRIVALS).expect("reads").0, [(0, 0, 0), (1_000_000_000, 0, 0)]);
    }

    #[test]
    fn rate_and_limit() {
        let source = TraceSource { rate_multiplier: 2.0, limit: Some(2), ..source() };
        let text = "arrived_at,num_prefill_tokens,num_decode_tokens\n1.0,1,1\n2.0,2,2\n3.0,3,3\nbad\n";
        assert_eq!(read(text.as_bytes(), &source, Wanted::ALL).expect("reads").0, [(0, 1, 1), (500_000_000, 2, 2)]);
    }

    #[test]
    fn unsorted_rows_are_refused_or_sorted() {
        let text = "arrived_at,num_prefill_tokens,num_decode_tokens\n5,1,1\n3.5,2,2\n5,3,3\n";
        assert_eq!(fault(text), "t.csv:3: this row arrives 1.5 s before the row above it");
        let sort = TraceSource { unsorted: Unsorted::Sort, ..source() };
        let sorted = read(text.as_bytes(), &sort, Wanted::ALL).expect("sorts").0;
        assert_eq!(sorted, [(0, 2, 2), (1_500_000_000, 1, 1), (1_500_000_000, 3, 3)]);
    }

    #[test]
    fn bad_rows_name_line_column_and_text() {
        let azure = |row: &str| fault(&format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{row}\n"));
        assert_eq!(
            azure("2023-11-16 18:15:46.68,374,0"),
            "t.csv:2: GeneratedTokens: expected a whole number of tokens from 1 to 67108864, found `0`\n  \
             in 2023-11-16 18:15:46.68,374,0"
        );
        assert!(azure("2023-11-16 18:15:46.68,-4,1").contains("ContextTokens: expected a whole number"));
        assert!(azure("2023-11-16 18:15:46.68,99999999999,1").contains("found `99999999999`"));
        assert!(azure("yesterday,4,1").contains("TIMESTAMP: expected a date and time"));
        assert!(azure("2023-11-16 18:15:46.68,374").contains("row: expected 3 fields, found 2"), "a truncated row");
        assert!(azure("\u{1b}[2J,4,1").contains(r"in \u{1b}[2J"), "no escape sequence reaches the terminal");
        let json = |row: &str| fault(&format!("{{\"timestamp\":0,\"input_length\":1,\"output_length\":1}}\n{row}"));
        assert!(json("{\"timestamp\":1,\"input_len").contains("t.csv:2: row: expected one JSON object"));
        assert!(json("{\"timestamp\":1,\"output_length\":1}").contains("input_length: expected a whole number"));
        assert!(json("{\"timestamp\":\"x\",\"input_length\":1,\"output_length\":1}").contains("found `\"x\"`"));
        assert!(json("[1,2]").contains("row: expected"));
    }

    #[test]
    fn skipped_rows_are_counted() {
        let skip = TraceSource { bad_rows: BadRows::Skip, ..source() };
        let text = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,0\n1,2,2\nx,1,1\n2,3,3\n3,4";
        let (rows, skipped) = read(text.as_bytes(), &skip, Wanted::ALL).expect("reads");
        assert_eq!(rows, [(0, 2, 2), (1_000_000_000, 3, 3)]);
        assert_eq!(skipped, SkippedRows { count: 3, first_line: Some(2), rank: None });
        let none = read(b"arrived_at,num_prefill_tokens,num_decode_tokens\nx\n", &skip, Wanted::ALL);
        assert_eq!(none.expect_err("refused").to_string(), "t.csv holds no requests (1 row was skipped)");
    }

    #[test]
    fn empty_and_foreign_files_are_refused() {
        assert_eq!(fault(""), "t.csv holds no requests");
        assert_eq!(fault("arrived_at,num_prefill_tokens,num_decode_tokens\n"), "t.csv holds no requests");
        assert!(fault("hello\nworld\n").starts_with("t.csv:1: this is no known trace format"));
        let lengths_only = "num_prefill_tokens,num_decode_tokens\n1,1\n";
        assert_eq!(
            fault(lengths_only),
            "t.csv:1: expected a column `arrived_at`, found `num_prefill_tokens`, `num_decode_tokens`"
        );
    }

    fn named(time_unit: Option<TimeUnit>) -> TraceSource {
        let names = ["ts", "prompt_len", "gen_len"].map(str::to_owned);
        let [arrival, prompt, output] = names;
        TraceSource {
            format: Some(TraceFormat::Csv(Box::new(ColumnNames {
                arrival,
                prompt,
                output,
                time_unit,
                labels: LabelColumns::default(),
            }))),
            ..source()
        }
    }

    fn message_and_help(text: &str, source: &TraceSource) -> String {
        let error = read(text.as_bytes(), source, Wanted::ALL).expect_err("refused");
        let help = miette::Diagnostic::help(&error).expect("every such fault has help");
        format!("{error}\nhelp: {help}")
    }

    #[test]
    fn times_in_another_unit_name_that_unit() {
        let seconds = named(Some(TimeUnit::Seconds));
        let row = |time: &str, source: &TraceSource| {
            message_and_help(&format!("ts,prompt_len,gen_len\n{time},1,1\n"), source)
        };
        insta::assert_snapshot!(row("1710000000018", &seconds), @r#"
    t.csv:2: ts: `1710000000018` is too large for seconds
      in 1710000000018,1,1
    help: if these are milliseconds, set `time_unit = "ms"` beside `columns`
    "#);
        insta::assert_snapshot!(row("2024-05-10T00:00:01Z", &seconds), @r#"
    t.csv:2: ts: expected a number of seconds, found `2024-05-10T00:00:01Z`, a date and time
      in 2024-05-10T00:00:01Z,1,1
    help: set `time_unit = "date"` beside `columns`
    "#);
        insta::assert_snapshot!(row("1710000000.5", &named(None)), @r#"
    t.csv:2: ts: expected a date and time such as `2023-11-16 18:15:46.680590`, found `1710000000.5`
      in 1710000000.5,1,1
    help: if these are seconds, set `time_unit = "s"` beside `columns`
    "#);
        insta::assert_snapshot!(row("1e300", &seconds), @r#"
    t.csv:2: ts: expected a number of seconds, found `1e300`
      in 1e300,1,1
    help: mend the row, or set `bad_rows = "skip"` to leave such rows out and count them
    "#);
    }

    #[test]
    fn headers_with_other_names_or_separators_say_so() {
        let seconds = named(Some(TimeUnit::Seconds));
        insta::assert_snapshot!(message_and_help("ts,prompt_len,gen_length\n", &seconds), @r"
    t.csv:1: expected a column `gen_len`, found `ts`, `prompt_len`, `gen_length`
    help: did you mean `gen_length`?
    ");
        insta::assert_snapshot!(message_and_help("ts,in,out\n", &seconds), @r"
    t.csv:1: expected a column `prompt_len`, found `ts`, `in`, `out`
    help: write the names as the first line of the file has them
    ");
        insta::assert_snapshot!(message_and_help("ts;prompt_len;gen_len\n", &seconds), @r"
    t.csv:1: expected a column `ts`, found `ts;prompt_len;gen_len`
    help: the separator must be a comma, and this line has `;`: write the file with commas
    ");
        insta::assert_snapshot!(message_and_help("ts\tprompt_len\tgen_len\n", &seconds), @r"
    t.csv:1: expected a column `ts`, found `ts\tprompt_len\tgen_len`
    help: the separator must be a comma, and this line has tabs: write the file with commas
    ");
        insta::assert_snapshot!(message_and_help("arrived_at;num_prefill_tokens;num_decode_tokens\n", &source()), @r"
    t.csv:1: this is no known trace format; the first line is arrived_at;num_prefill_tokens;num_decode_tokens
    help: the separator must be a comma, and this line has `;`: write the file with commas
    ");
    }

    fn soup() -> impl Strategy<Value = Vec<u8>> {
        let header = prop_oneof![
            Just(&b""[..]),
            Just(&b"TIMESTAMP,ContextTokens,GeneratedTokens\n"[..]),
            Just(&b"arrived_at,num_prefill_tokens,num_decode_tokens\n"[..]),
            Just(&b"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n"[..]),
        ];
        let plausible = "[0-9eE+:., TZ{}\"\\-\n\r]{0,200}".prop_map(String::into_bytes);
        let any_bytes = proptest::collection::vec(any::<u8>(), 0..200);
        (header, prop_oneof![plausible, any_bytes]).prop_map(|(header, rest)| [header, &rest].concat())
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in soup(), skip in any::<bool>(), sort in any::<bool>()) {
            let source = TraceSource {
                bad_rows: if skip { BadRows::Skip } else { BadRows::Refuse },
                unsorted: if sort { Unsorted::Sort } else { Unsorted::Refuse },
                ..source()
            };
            for wanted in [Wanted::ALL, Wanted::ARRIVALS, Wanted::LENGTHS] {
                if let Ok((rows, _)) = read(&bytes, &source, wanted) {
                    prop_assert!(rows.is_sorted_by_key(|row| row.0) && rows[0].0 == 0);
                }
            }
        }
    }
}
