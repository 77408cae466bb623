//! Checks on single values, and errors and warnings that know their place.

use std::fmt::Display;

use calibrate::spelling::closest;
use kernels::units::Bytes;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::line;
use super::file::{Real, Size, Time, Whole};
use super::form::Engine;
use super::size::parse_size;
use super::{Scenario, ScenarioError, Span, elsewhere};
use crate::limits::SPAN_S_MAX;
use crate::time::SimDuration;

const TIME_HELP: &str = "write a number and a unit, such as \"40ms\", \"1.5s\" or \"2min\"";
const SIZE_HELP: &str = "write a number and a unit, such as \"2GiB\" or \"512MiB\"";

/// A scenario's text while it is being checked.
pub(super) struct Check<'text> {
    text: &'text str,
    file: &'text str,
    document: Spanned<DeTable<'text>>,
    pub(super) warnings: Vec<String>,
}

impl<'text> Check<'text> {
    /// Reads the text as TOML.
    pub(super) fn new(text: &'text str, file: &'text str) -> Result<Self, ScenarioError> {
        let document = DeTable::parse(text).map_err(|error| Scenario::not_toml(text, file, &error))?;
        Ok(Self { text, file, document, warnings: Vec::new() })
    }

    /// The scenario's text.
    pub(super) fn text(&self) -> &'text str {
        self.text
    }

    /// The file's name in messages.
    pub(super) fn file(&self) -> &'text str {
        self.file
    }

    /// The top-level value of `key`, before anything else is known.
    pub(super) fn top_level(&self, key: &str) -> Option<&Spanned<DeValue<'text>>> {
        self.document.get_ref().get(key)
    }

    /// An error at `span`, with the key in front of the message.
    pub(super) fn reject(&self, span: &Span, problem: impl Display, help: impl Display) -> ScenarioError {
        let message = match path_to(self.document.get_ref(), span) {
            Some(key) => format!("{key}: {problem}"),
            None => problem.to_string(),
        };
        ScenarioError::rejected(self.text, self.file, span, message, help.to_string())
    }

    /// An error of the TOML reader, in our words.
    pub(super) fn reject_form(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let (mut message, mut help) = plain_words(error.message());
        let table = path_to(self.document.get_ref(), &span).unwrap_or_default();
        let engine = Engine::of(self).unwrap_or(Engine::Vllm);
        if message.starts_with("unknown key")
            && let Some((problem, way_out)) = elsewhere::key(engine, &table)
        {
            (message, help) = (problem, way_out);
        }
        if message.starts_with("unknown choice")
            && let Some(way_out) = message.split('`').nth(1).and_then(elsewhere::choice)
        {
            way_out.clone_into(&mut help);
        }
        if message.ends_with("a table of that name") {
            let word = self.text.get(span.clone()).unwrap_or_default().trim_matches(['"', '\'']);
            help = format!("write [{table}.{word}], and its keys below");
        }
        if table == "traffic.adapters.popularity" && help.starts_with("write [") {
            "write \"uniform\", { zipf = 1.0 } or { shares = [0.5, 0.3, 0.2] }".clone_into(&mut help);
        }
        if table.starts_with("profile.") && message.starts_with("unknown choice") && help.is_empty() {
            help.push_str("write builtin = \"NAME\" for a built-in profile, file = \"PATH\" for one of your own");
        }
        if table.starts_with("candidate.") && help.starts_with("the keys here") {
            help = format!("{help}; what else describes the server belongs under [{}]", engine.table());
        }
        self.reject(&span, message, help)
    }

    /// Notes something that is accepted but likely to surprise.
    pub(super) fn warn(&mut self, span: &Span, problem: impl Display) {
        let line = line(self.text, span.start);
        let key = path_to(self.document.get_ref(), span).map(|key| format!("{key}: ")).unwrap_or_default();
        self.warnings.push(format!("{}:{line}: {key}{problem}", self.file));
    }

    /// A whole number from `min` to `max`.
    pub(super) fn whole(&self, value: &Whole, min: u64, max: u64) -> Result<u64, ScenarioError> {
        match u64::try_from(*value.get_ref()) {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => {
                let problem = format!("expected a whole number from {min} to {max}, found {}", value.get_ref());
                let help = range_help(*value.get_ref() as f64, min as f64);
                Err(self.reject(&value.span(), problem, help))
            }
        }
    }

    /// A whole number from `min` to `max`, of those that 32 bits hold.
    pub(super) fn whole32(&self, value: &Whole, min: u32, max: u32) -> Result<u32, ScenarioError> {
        Ok(self.whole(value, min.into(), max.into())? as u32)
    }

    /// `whole32` of an optional value.
    pub(super) fn optional32(&self, value: Option<&Whole>, min: u32, max: u32) -> Result<Option<u32>, ScenarioError> {
        value.map(|value| self.whole32(value, min, max)).transpose()
    }

    /// A finite number from `min` to `max`.
    pub(super) fn real(&self, value: &Real, min: f64, max: f64) -> Result<f64, ScenarioError> {
        let number = *value.get_ref();
        if (min..=max).contains(&number) {
            return Ok(number);
        }
        let problem = format!("expected a number from {min} to {max}, found {number}");
        Err(self.reject(&value.span(), problem, range_help(number, min)))
    }

    /// A span of time above zero.
    pub(super) fn duration(&self, value: &Time) -> Result<SimDuration, ScenarioError> {
        let text = value.get_ref().as_str();
        let parsed = humantime::parse_duration(text).map_err(|error| {
            self.reject(&value.span(), format!("\"{text}\" is no span of time: {error}"), TIME_HELP)
        })?;
        if parsed.is_zero() {
            return Err(self.reject(&value.span(), "expected a span of time above zero", TIME_HELP));
        }
        if parsed.as_secs() > SPAN_S_MAX {
            let problem = format!("expected at most {SPAN_S_MAX} seconds, found \"{text}\"");
            return Err(self.reject(&value.span(), problem, TIME_HELP));
        }
        Ok(SimDuration(parsed.as_nanos() as u64))
    }

    /// `duration` of an optional value.
    pub(super) fn optional_duration(&self, value: Option<&Time>) -> Result<Option<SimDuration>, ScenarioError> {
        value.map(|value| self.duration(value)).transpose()
    }

    /// `size` of an optional value.
    pub(super) fn optional_size(&self, value: Option<&Size>) -> Result<Option<Bytes>, ScenarioError> {
        value
            .map(|value| {
                let parsed = parse_size(value.get_ref().as_str());
                parsed.map_err(|problem| self.reject(&value.span(), problem, SIZE_HELP))
            })
            .transpose()
    }

    /// A name that a report can print: not empty, one line, not long.
    pub(super) fn title(&self, value: &Spanned<String>) -> Result<String, ScenarioError> {
        self.printable(value, "a name", 120)
    }

    /// A sentence or two that a report can print: not empty, one line, not a page.
    pub(super) fn sentences(&self, value: &Spanned<String>) -> Result<String, ScenarioError> {
        self.printable(value, "a sentence", 600)
    }

    fn printable(&self, value: &Spanned<String>, what: &str, characters: usize) -> Result<String, ScenarioError> {
        let text = value.get_ref();
        let problem = if text.trim().is_empty() {
            format!("expected {what}, found nothing")
        } else if text.chars().any(char::is_control) {
            "expected one line of text without control characters".to_owned()
        } else if text.chars().count() > characters {
            format!("expected at most {characters} characters")
        } else {
            return Ok(text.clone());
        };
        let short = what.strip_prefix("a ").unwrap_or(what);
        Err(self.reject(&value.span(), problem, format!("write a short, printable {short}")))
    }
}

/// What to do about a number outside its range.
pub(super) fn range_help(number: f64, min: f64) -> String {
    if number.is_nan() {
        "write a plain number".to_owned()
    } else if number < min {
        format!("write {min} or more")
    } else {
        "nothing real comes near this: check the digits and the unit".to_owned()
    }
}

/// What the TOML reader calls numbers.
const NUMBERS: [&str; 2] = ["expected i64", "expected f64"];

/// The TOML reader's message and what to do about it.
fn plain_words(message: &str) -> (String, String) {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, [unknown, known @ ..]) = (message.starts_with("unknown field"), &names[..]) {
        let help = match closest(unknown, known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("the keys here are: {}", known.join(", ")),
        };
        return (format!("unknown key `{unknown}`"), help);
    }
    let mut plain = message.to_owned();
    for (theirs, ours) in [
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
        ("floating point", "number"),
        (" as i128", ""),
        (" as u128", ""),
        ("invalid type: ", "wrong type: "),
        ("unit variant, expected newtype variant", "a word, expected a table of that name"),
        ("unknown variant", "unknown choice"),
        ("missing field", "missing key"),
        ("wanted exactly 1 element, more than 1 element", "expected exactly one choice, found more than one"),
    ] {
        plain = plain.replace(theirs, ours);
    }
    let help = match &names[..] {
        [unknown, known @ ..] if message.starts_with("unknown variant") => {
            closest(unknown, known).map(|name| format!("did you mean `{name}`?")).unwrap_or_default()
        }
        [missing] if message.starts_with("missing field") => format!("add `{missing}`"),
        _ if message.contains("expected a span of time") => TIME_HELP.to_owned(),
        _ if message.contains("expected a size") => SIZE_HELP.to_owned(),
        _ if message.starts_with("invalid type: string") && NUMBERS.iter().any(|number| message.ends_with(number)) => {
            number_help(message)
        }
        _ if message.starts_with("wanted exactly 1") => "keep one of them".to_owned(),
        _ => String::new(),
    };
    (plain, help)
}

/// What to do about a text in place of a number: `"8/s"` holds the number that was meant.
fn number_help(message: &str) -> String {
    let text = message.split('"').nth(1).unwrap_or_default().trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match text[..end].trim_end_matches('.') {
        "" => "write a plain number, without quotes and without a unit".to_owned(),
        number => format!("write the plain number, without quotes and without a unit: {number}"),
    }
}

/// The dotted key whose name or value holds `span`, as deep as it goes. Items of a list share its key.
fn path_to(table: &DeTable<'_>, span: &Span) -> Option<String> {
    let holds = |outer: Span| outer.start <= span.start && span.end <= outer.end && !span.is_empty();
    let mut found = None;
    for (key, value) in table {
        let below = match value.get_ref() {
            DeValue::Table(inner) => path_to(inner, span),
            DeValue::Array(items) => items.iter().find_map(|item| path_to(item.get_ref().as_table()?, span)),
            _ => None,
        };
        if let Some(below) = below {
            return Some(format!("{}.{below}", key.get_ref()));
        }
        if holds(key.span()) || holds(value.span()) {
            found = Some(key.get_ref().to_string());
        }
    }
    found
}
