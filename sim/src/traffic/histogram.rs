//! Histograms of step shapes: traffic that is priced without an event loop.

use std::collections::HashSet;
use std::io::Read;

use crate::engine::options::Limits;
use crate::limits::{COUNT_MAX, STEP_TOKENS_MAX};

/// The columns of a histogram, in files and in scenarios.
const COLUMNS: [&str; 4] = ["tokens", "requests", "query_len", "count"];

/// How often steps of each shape occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepHistogram {
    /// Shapes with their counts, in the order given; never empty, no shape twice.
    pub rows: Vec<StepRow>,
}

/// One shape and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Scheduled tokens of the step.
    pub tokens: u32,
    /// Scheduled requests.
    pub requests: u32,
    /// The longest query of the step, in tokens.
    pub query_len: u32,
    /// How many such steps.
    pub count: u64,
    /// Images that the encoder runs in the step, in encoder tokens each, in order.
    pub images: Vec<u32>,
}

impl StepRow {
    /// Whether every request runs the same number of tokens.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        u64::from(self.requests) * u64::from(self.query_len) == u64::from(self.tokens)
    }

    /// Builds a row, and says which column is wrong if it cannot be. A missing query length is that of a uniform step.
    ///
    /// # Errors
    /// The column's name and what was expected.
    pub fn new(tokens: u64, requests: u64, query_len: Option<u64>, count: u64) -> Result<Self, (&'static str, String)> {
        if tokens == 0 || tokens > u64::from(STEP_TOKENS_MAX) {
            return Err(("tokens", format!("expected 1 to {STEP_TOKENS_MAX} tokens, found {tokens}")));
        }
        if requests == 0 || requests > tokens {
            return Err(("requests", format!("expected 1 to {tokens} requests (one token each), found {requests}")));
        }
        if count == 0 || count > COUNT_MAX {
            return Err(("count", format!("expected a count from 1 to {COUNT_MAX}, found {count}")));
        }
        let (shortest, longest) = (tokens.div_ceil(requests), tokens - requests + 1);
        let query_len = match query_len {
            Some(given) if given < shortest || given > longest => {
                let problem = format!(
                    "the longest of {requests} queries with {tokens} tokens in all is {shortest} to {longest}, \
                     found {given}"
                );
                return Err(("query_len", problem));
            }
            Some(given) => given,
            None if tokens.is_multiple_of(requests) => shortest,
            None => {
                let problem =
                    format!("query_len is needed: {tokens} tokens do not divide evenly over {requests} requests");
                return Err(("query_len", problem));
            }
        };
        Ok(Self {
            tokens: tokens as u32,
            requests: requests as u32,
            query_len: query_len as u32,
            count,
            images: Vec::new(),
        })
    }

    /// The row with the images of its steps.
    #[must_use]
    pub fn with_images(self, images: Vec<u32>) -> Self {
        Self { images, ..self }
    }
}

impl StepHistogram {
    /// Gathers rows.
    ///
    /// # Errors
    /// The index of a row whose shape was given before with the same images, or `None` if there are no rows at all.
    pub fn new(rows: Vec<StepRow>) -> Result<Self, Option<usize>> {
        if rows.is_empty() {
            return Err(None);
        }
        let mut seen = HashSet::with_capacity(rows.len());
        match rows.iter().position(|row| !seen.insert((row.tokens, row.requests, row.query_len, &row.images))) {
            Some(repeated) => Err(Some(repeated)),
            None => Ok(Self { rows }),
        }
    }

    /// The first step that no scheduler of a server with these limits hands out, in a sentence.
    #[must_use]
    pub fn impossible_step(&self, limits: &Limits) -> Option<String> {
        let Limits { requests, step_tokens, .. } = *limits;
        let is_impossible = |row: &&StepRow| row.tokens > step_tokens.value || row.requests > requests.value;
        self.rows.iter().find(is_impossible).map(|row| {
            format!(
                "a step of {} tokens and {} requests is beyond {} ({}) or {} ({}): this server never runs it",
                row.tokens, row.requests, step_tokens.flag, step_tokens.value, requests.flag, requests.value
            )
        })
    }

    /// Reads comma-separated rows under a header `tokens,requests,query_len,count` (any order). An empty `query_len` is
    /// that of a uniform step.
    ///
    /// # Errors
    /// One sentence with the line number, for the caller to put the file's name in front of.
    pub fn read_csv(input: impl Read) -> Result<Self, String> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
        let header = reader.headers().map_err(|error| error.to_string())?.clone();
        let mut places = [0; 4];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = header
                .iter()
                .position(|name| name == column)
                .ok_or_else(|| format!("line 1: expected the columns {}, found no `{column}`", COLUMNS.join(", ")))?;
        }
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for record in reader.records() {
            let record = record.map_err(|error| error.to_string())?;
            let line = record.position().map_or(0, csv::Position::line);
            let cell = |column: usize| {
                let text = record.get(places[column]).unwrap_or_default();
                let problem = || format!("line {line}: {}: expected a whole number, found `{text}`", COLUMNS[column]);
                text.parse::<u64>().map_err(|_| problem())
            };
            let query_len = if record.get(places[2]) == Some("") { None } else { Some(cell(2)?) };
            let row = StepRow::new(cell(0)?, cell(1)?, query_len, cell(3)?)
                .map_err(|(column, problem)| format!("line {line}: {column}: {problem}"))?;
            rows.push(row);
            lines.push(line);
        }
        Self::new(rows).map_err(|fault| match fault {
            None => "no rows under the header".to_owned(),
            Some(repeated) => format!("line {}: this shape has a row already; add the counts up", lines[repeated]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fills_in_and_checks_the_query_length() {
        let row = StepRow::new(12, 4, None, 5).expect("uniform");
        assert_eq!((row.query_len, row.is_uniform()), (3, true));
        let mixed = StepRow::new(515, 4, Some(512), 1).expect("one prefill chunk of 512 and three decodes");
        assert!(!mixed.is_uniform());
        for (query_len, column) in [(None, "query_len"), (Some(128), "query_len"), (Some(513), "query_len")] {
            assert_eq!(StepRow::new(515, 4, query_len, 1).expect_err("refused").0, column);
        }
        for (tokens, requests, count, column) in [
            (0, 1, 1, "tokens"),
            (u64::MAX, 1, 1, "tokens"),
            (4, 0, 1, "requests"),
            (4, 5, 1, "requests"),
            (4, 4, 0, "count"),
        ] {
            assert_eq!(StepRow::new(tokens, requests, Some(1), count).expect_err("refused").0, column);
        }
    }

    #[test]
    fn csv_rows_come_in_any_column_order() {
        let text = "count,query_len,requests,tokens\r\n3,1,8,8\r\n2,,4,12";
        let histogram = StepHistogram::read_csv(text.as_bytes()).expect("reads");
        assert_eq!(
            histogram.rows,
            [
                StepRow { tokens: 8, requests: 8, query_len: 1, count: 3, images: vec![] },
                StepRow { tokens: 12, requests: 4, query_len: 3, count: 2, images: vec![] },
            ]
        );
    }

    #[test]
    fn csv_faults_name_their_line() {
        let fault = |text: &str| StepHistogram::read_csv(text.as_bytes()).expect_err("refused");
        assert_eq!(
            fault("tokens,requests,count\n"),
            "line 1: expected the columns tokens, requests, query_len, count, found no `query_len`"
        );
        assert_eq!(
            fault("tokens,requests,query_len,count\n8,8,1,1\n8,8,1,x\n"),
            "line 3: count: expected a whole number, found `x`"
        );
        assert_eq!(
            fault("tokens,requests,query_len,count\n8,8,1,1\n8,8,1,4\n"),
            "line 3: this shape has a row already; add the counts up"
        );
        assert_eq!(fault("tokens,requests,query_len,count\n"), "no rows under the header");
        assert!(fault("tokens,requests,query_len,count\n8,8\n").contains("line: 2"));
    }
}
