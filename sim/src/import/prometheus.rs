//! What a server's `/metrics` says: Prometheus's text format, one scrape or several.
//!
//! Counters count since the start of the server. Of a counter that is there twice, in two scrapes, the difference counts; of
//! one that is there once, all of it. Where any counter of a server fell, or the text says that its process began later, the
//! server began anew between two scrapes, and all its counters count since then; unless times in the text say that the scrapes
//! are not in order. Series are the same whatever the order of their labels.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::settings::{Place, Settings, Wants};
use super::steps::{OpenSteps, SeenSteps};

/// Most different series that are kept: a hundred times what an engine has.
const SERIES_MAX: usize = 1 << 17;

/// Labels of `vllm:cache_config_info` that are settings.
const CACHE_CONFIG: [(&str, Wants); 4] = [
    ("block_size", Wants::Whole),
    ("enable_prefix_caching", Wants::Switch),
    ("gpu_memory_utilization", Wants::Real),
    ("num_gpu_blocks", Wants::Whole),
];

/// Labels of a process.
const PROCESS: [&str; 3] = ["instance", "pod", "job"];

/// Labels of a server: those of its process, and its model.
const SERVER: [&str; 4] = ["instance", "pod", "job", "model_name"];

/// Labels of a data-parallel rank of a server: vLLM's, then SGLang's.
const RANK: [&str; 2] = ["engine", "dp_rank"];

/// vLLM's histogram of the tokens of steps.
const ITERATION_TOKENS: &str = "vllm:iteration_tokens_total_bucket";

/// All tokens in it.
const ITERATION_TOKENS_SUM: &str = "vllm:iteration_tokens_total_sum";

/// SGLang's passes.
const PASSES: &str = "sglang:cuda_graph_passes_total";

/// Metrics that count steps: vLLM's, then SGLang's.
const STEPS: [&str; 2] = [ITERATION_TOKENS, PASSES];

/// Gauges of the requests that run.
pub const RUNNING: [&str; 2] = ["vllm:num_requests_running", "sglang:num_running_reqs"];

/// When a process began, in seconds since 1970.
const PROCESS_START: &str = "process_start_time_seconds";

/// How the names of metrics end that say when their counter began.
const COUNTER_START: &str = "_created";

/// Seconds by which the start of one process may differ between two scrapes: a clock that was set.
const START_TOLERANCE_S: f64 = 2.0;

/// A series' first and last value.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    first: f64,
    last: f64,
    /// How often it was there.
    seen: u64,
    sum: f64,
    /// When it was scraped last, where the text says so.
    at: Option<f64>,
    /// The source that it was in last, counted from 1.
    source: usize,
    /// Of steps: where it was first, and last.
    places: Option<[Place; 2]>,
}

/// When a process or a counter began.
#[derive(Clone, Debug, PartialEq)]
struct Start {
    /// Of which process or rank.
    whose: String,
    last_s: f64,
    /// How often it was there.
    seen: u64,
    /// Whether it began again, later.
    is_anew: bool,
}

/// A counter that fell between two scrapes.
#[derive(Clone, Debug, PartialEq)]
struct Fall {
    place: Place,
    /// Its name and values, in words.
    what: String,
    /// Of its process.
    process: String,
    /// Whether the text says that it was scraped later.
    is_later: bool,
}

/// Several servers in one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveralServers {
    /// Labels that tell them apart, with their values; empty where a server has none of that name.
    pub labels: Vec<(&'static str, Vec<String>)>,
}

/// What was scraped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrapes {
    /// By name, then by labels as text.
    series: BTreeMap<String, BTreeMap<String, Series>>,
    count: usize,
    /// Settings that are labels: of the KV cache.
    pub settings: Settings,
    /// By rank, of the counters that fell between two scrapes the first.
    fallen: BTreeMap<String, Fall>,
    /// When processes and counters began, by name and labels.
    starts: BTreeMap<String, Start>,
    /// The first line that is of an earlier time than what was read before it, and why.
    backwards: Option<(Place, String)>,
    /// Of the steps that are counted: the values of each label that says whose they are.
    whose: BTreeMap<&'static str, BTreeSet<String>>,
    /// Sources so far, and the name of the last one.
    sources: (usize, String),
    /// By rank, the source that its steps were in last.
    newest: BTreeMap<String, usize>,
    /// The first count of steps or tokens that is below zero, and what it is.
    negative: Option<(Place, String)>,
}

/// How sure it is that a server began anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarted {
    /// Times in the text say so.
    Certainly,
    /// Only its counters do: scrapes in the wrong order look the same.
    Perhaps,
}

/// Passes of SGLang with and without a graph, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// Decode passes with a graph, and without.
    pub decode: [u64; 2],
    /// Prefill passes with a graph, and without.
    pub prefill: [u64; 2],
}

impl Scrapes {
    /// Whether a line is one of this format about an engine that is known.
    #[must_use]
    pub fn knows(line: &str) -> bool {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        name.starts_with("vllm:") || name.starts_with("sglang:")
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Whether any series is one of vLLM's, and of SGLang's.
    #[must_use]
    pub fn engines(&self) -> [bool; 2] {
        ["vllm:", "sglang:"].map(|engine| self.series.keys().any(|name| name.starts_with(engine)))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// A line of an engine that is known and cannot be read: what is wrong.
    pub fn take(&mut self, line: &str, place: &Place) -> Result<bool, &'static str> {
        let line = line.trim();
        let is_process_start = line.starts_with(PROCESS_START);
        if line.starts_with('#') || !(is_process_start || Self::knows(line)) {
            return Ok(false);
        }
        let Sample { name, labels, value, at } = Sample::of(line).ok_or("expected name{labels} value")?;
        let labels = &*in_order(labels)?;
        let counts_steps = STEPS.contains(&name);
        let is_needed = counts_steps || name == ITERATION_TOKENS_SUM;
        if !value.is_finite() {
            // Many gauges have no value until the first request.
            let is_wanted = is_process_start || is_needed || RUNNING.contains(&name);
            return if is_wanted { Err("expected a finite number") } else { Ok(false) };
        }
        if is_needed && value < 0.0 {
            self.negative
                .get_or_insert_with(|| (place.clone(), format!("{name} is {value}, and no count is below zero")));
            return Ok(true);
        }
        if self.sources.1 != place.file {
            self.sources = (self.sources.0 + 1, place.file.clone());
        }
        let source = self.sources.0;
        if is_process_start {
            self.start(format!("{name} {labels}"), process(labels), value, place);
            return Ok(true);
        }
        if name.ends_with(COUNTER_START) {
            self.start(format!("{name} {labels}"), rank(labels), value, place);
        }
        if name == "vllm:cache_config_info" {
            self.cache_config(labels, place);
        }
        if counts_steps {
            self.newest.insert(rank(labels), source);
        }
        let series = self.series.entry(name.to_owned()).or_default();
        match series.get_mut(labels) {
            Some(series) => {
                let times = series.at.zip(at);
                if times.is_some_and(|(before, now)| now < before) {
                    self.backwards.get_or_insert_with(|| (place.clone(), format!("the time behind {name} is earlier")));
                }
                if value < series.last && is_counter(name) {
                    self.fallen.entry(rank(labels)).or_insert_with(|| Fall {
                        place: place.clone(),
                        what: format!("{name} fell from {} to {value}", series.last),
                        process: process(labels),
                        is_later: times.is_some_and(|(before, now)| now > before),
                    });
                }
                series.last = value;
                series.seen += 1;
                series.sum += value;
                series.at = at;
                series.source = source;
                if let Some([_, last]) = &mut series.places {
                    *last = place.clone();
                }
            }
            None if self.count < SERIES_MAX => {
                self.count += 1;
                let of_rank = STEPS.iter().zip(&RANK).filter(|(steps, _)| **steps == name).map(|(_, key)| key);
                for key in of_rank.chain(SERVER.iter().filter(|_| counts_steps)) {
                    self.whose.entry(key).or_default().insert(label(labels, key).unwrap_or_default().to_owned());
                }
                let places = counts_steps.then(|| [place.clone(), place.clone()]);
                let new = Series { first: value, last: value, seen: 1, sum: value, at, source, places };
                series.insert(labels.to_owned(), new);
            }
            None => return Err("there are too many different series"),
        }
        Ok(true)
    }

    /// Takes the time at which a process, or a counter of a rank, began.
    fn start(&mut self, series: String, whose: String, start_s: f64, place: &Place) {
        if self.starts.len() >= SERIES_MAX {
            return;
        }
        let start = self.starts.entry(series).or_insert(Start { whose, last_s: start_s, seen: 0, is_anew: false });
        if start_s < start.last_s - START_TOLERANCE_S {
            self.backwards.get_or_insert_with(|| (place.clone(), "it is of an earlier start".to_owned()));
        }
        start.is_anew |= start_s > start.last_s + START_TOLERANCE_S;
        start.seen += 1;
        start.last_s = start_s;
    }

    fn cache_config(&mut self, labels: &str, place: &Place) {
        for (name, wants) in CACHE_CONFIG {
            let key = if name == "num_gpu_blocks" { "num_gpu_blocks_override" } else { name };
            if let Some(value) = label(labels, name).and_then(|value| wants.read(value)) {
                self.settings.set(key, value, place);
            }
        }
    }

    /// How much the counters of a name grew, by labels.
    fn grown<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
        self.counted(name).map(|(labels, series, from)| (labels, (series.last - from).max(0.0)))
    }

    /// The counters of a name, by labels, each with what it is counted from.
    fn counted<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a Series, f64)> {
        let series = self.series.get(name).into_iter().flatten();
        series.filter_map(|(labels, series)| {
            let whose = rank(labels);
            let began_anew = self.fallen.contains_key(&whose) || self.is_anew(&whose, &process(labels));
            // What a rank no longer has in its last scrape is of before.
            let is_gone = began_anew && self.newest.get(&whose).is_some_and(|newest| series.source < *newest);
            let from = if series.seen < 2 || began_anew { 0.0 } else { series.first };
            (!is_gone).then_some((labels.as_str(), series, from))
        })
    }

    /// Whether a server began anew between two scrapes: the text says so, or a counter fell, and then, where nothing says when
    /// it began, the scrapes may not be in order of time.
    #[must_use]
    pub fn restarted(&self) -> Option<Restarted> {
        let is_certain = |(rank, fall): (&String, &Fall)| fall.is_later || self.is_anew(rank, &fall.process);
        let all_certain = self.fallen.iter().all(is_certain);
        let mut steps = STEPS.iter().filter_map(|name| self.series.get(*name)).flatten();
        let has_fallen = !self.fallen.is_empty();
        let is_anew = has_fallen
            || steps.any(|(labels, series)| series.seen > 1 && self.is_anew(&rank(labels), &process(labels)));
        is_anew.then_some(if all_certain { Restarted::Certainly } else { Restarted::Perhaps })
    }

    /// Whether the text says that a rank or its process began later in a later scrape.
    fn is_anew(&self, rank: &str, process: &str) -> bool {
        self.starts_of(rank, process).any(|start| start.is_anew)
    }

    /// What is known of the starts of a rank.
    fn starts_of<'a>(&'a self, rank: &'a str, process: &'a str) -> impl Iterator<Item = &'a Start> {
        self.starts.values().filter(move |start| start.whose == rank || start.whose == process)
    }

    /// Where scrapes are in the wrong order, and why that is certain: a time of the text goes back, or a counter fell in a process
    /// that goes on.
    #[must_use]
    pub fn reversed(&self) -> Option<(Place, String)> {
        self.backwards.clone().or_else(|| {
            let goes_on = |(rank, fall): &(&String, &Fall)| {
                let starts = || self.starts_of(rank, &fall.process);
                !fall.is_later && starts().any(|start| start.seen > 1) && !starts().any(|start| start.is_anew)
            };
            let (_, fall) = self.fallen.iter().find(goes_on)?;
            Some((fall.place.clone(), format!("{}, and the server did not begin anew", fall.what)))
        })
    }

    /// Where counts contradict each other, and how: one is below zero, or a bucket of steps up to a size counts fewer than one up
    /// to a smaller size, in a scrape or between two.
    #[must_use]
    pub fn contradiction(&self) -> Option<(Place, String)> {
        let mut histograms: BTreeMap<String, Vec<(f64, &Series, f64)>> = BTreeMap::new();
        for (labels, series, from) in self.counted(ITERATION_TOKENS) {
            if let Some(end) = label(labels, "le").and_then(|end| end.parse().ok()) {
                let of: Vec<&str> =
                    pairs(labels).filter(|(name, _)| *name != "le").flat_map(<[&str; 2]>::from).collect();
                histograms.entry(of.join("\n")).or_default().push((end, series, from));
            }
        }
        let fell = histograms.into_values().find_map(|mut buckets| {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            buckets.windows(2).find_map(|pair| fewer(&pair[0], &pair[1]))
        });
        self.negative.clone().or(fell)
    }

    /// Whether steps were counted more than once, and nothing came to them.
    #[must_use]
    pub fn stood_still(&self) -> bool {
        let mut counted = STEPS.iter().filter_map(|name| self.series.get(*name)).flatten();
        let is_twice = counted.any(|(_, series)| series.seen > 1);
        is_twice && STEPS.iter().flat_map(|name| self.grown(name)).all(|(_, grown)| grown < 1.0)
    }

    /// The servers whose steps are counted, where there are several: also where some have no rank, as one server names it of all
    /// its steps or of none.
    #[must_use]
    pub fn several_servers(&self) -> Option<SeveralServers> {
        let mut labels = self.differing(&SERVER);
        labels.extend(self.differing(&RANK).into_iter().filter(|(_, ranks)| ranks.iter().any(String::is_empty)));
        (!labels.is_empty()).then_some(SeveralServers { labels })
    }

    /// The data-parallel ranks whose steps are counted, where there are several.
    #[must_use]
    pub fn several_ranks(&self) -> Option<String> {
        let ranks = self.differing(&RANK);
        let ranks = ranks.into_iter().map(|(label, values)| format!("{label} {}", values.join(", ")));
        Some(ranks.collect::<Vec<_>>().join("; ")).filter(|ranks| !ranks.is_empty())
    }

    /// Those of these labels that have several values.
    fn differing(&self, labels: &[&str]) -> Vec<(&'static str, Vec<String>)> {
        let differing = self.whose.iter().filter(|(label, values)| labels.contains(label) && values.len() > 1);
        differing.map(|(label, values)| (*label, values.iter().cloned().collect())).collect()
    }

    /// vLLM's histogram of tokens by step, as ranges.
    #[must_use]
    pub fn iteration_tokens(&self) -> SeenSteps {
        let mut by_end: BTreeMap<u64, f64> = BTreeMap::new();
        let mut all = 0.0;
        for (labels, count) in self.grown(ITERATION_TOKENS) {
            match label(labels, "le") {
                Some("+Inf") => all += count,
                Some(end) => {
                    if let Some(end) = end.parse::<f64>().ok().filter(|end| (1.0..1e9).contains(end)) {
                        *by_end.entry(end as u64).or_default() += count;
                    }
                }
                None => {}
            }
        }
        let mut steps = SeenSteps::default();
        let (mut below, mut counted) = (0, 0.0);
        for (end, up_to) in by_end {
            let count = (up_to - counted).round();
            if count >= 1.0 {
                let [least_tokens, most_tokens] =
                    [below + 1, end].map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
                steps.add_open(OpenSteps { least_tokens, most_tokens, may_decode: true }, count as u64);
            }
            (below, counted) = (end, up_to.max(counted));
        }
        if (all - counted).round() >= 1.0 {
            let end = u32::try_from(below + 1).unwrap_or(u32::MAX);
            steps.add_open(
                OpenSteps { least_tokens: end, most_tokens: end, may_decode: false },
                (all - counted).round() as u64,
            );
        }
        steps
    }

    /// All tokens that vLLM counted in these steps.
    #[must_use]
    pub fn counted_tokens(&self) -> Option<f64> {
        let sum: f64 = self.grown(ITERATION_TOKENS_SUM).map(|(_, tokens)| tokens).sum();
        (sum > 0.0).then_some(sum)
    }

    /// The mean of a gauge over engines and scrapes.
    #[must_use]
    pub fn gauge(&self, name: &str) -> Option<f64> {
        let series = self.series.get(name)?;
        let (sum, seen) =
            series.values().fold((0.0, 0.0), |(sum, seen), series| (sum + series.sum, seen + series.seen as f64));
        (seen > 0.0).then(|| sum / seen)
    }

    /// SGLang's passes; `None` if they were not counted.
    #[must_use]
    pub fn passes(&self) -> Option<Passes> {
        let mut passes = Passes::default();
        // Ranks that run every pass together count it each.
        let is_first =
            |labels: &str| ["tp_rank", "pp_rank"].iter().all(|rank| label(labels, rank).is_none_or(|rank| rank == "0"));
        for (labels, count) in self.grown(PASSES).filter(|(labels, _)| is_first(labels)) {
            let (phase, graph) = match label(labels, "mode") {
                Some("decode_cuda_graph") => (&mut passes.decode, 0),
                Some("decode_none") => (&mut passes.decode, 1),
                Some("prefill_cuda_graph") => (&mut passes.prefill, 0),
                Some("prefill_none") => (&mut passes.prefill, 1),
                _ => continue,
            };
            phase[graph] = phase[graph].saturating_add(count.round() as u64);
        }
        (passes != Passes::default()).then_some(passes)
    }
}

/// Whether a bucket counts fewer steps than one up to a smaller size, which is given first: where, and how.
fn fewer(smaller: &(f64, &Series, f64), larger: &(f64, &Series, f64)) -> Option<(Place, String)> {
    // Between two scrapes a count has rounded twice.
    const ROUNDED: f64 = 1e-6;
    let ((small, before, before_from), (large, after, after_from)) = (smaller, larger);
    let [first, last] = after.places.as_ref()?;
    let is_below = |count: f64, least: f64| count < least - ROUNDED;
    let ends = if large.is_finite() { &format!("of at most {large} tokens") } else { "of any size" };
    let said = |place: &Place, count: f64, least: f64, when: &str| {
        (place.clone(), format!("it counts {count} steps {ends}{when}, and {least} of at most {small} tokens"))
    };
    let is_difference = after.seen > 1 && before.seen > 1 && after_from + before_from > 0.0;
    if is_below(after.last, before.last) {
        return Some(said(last, after.last, before.last, ""));
    }
    if is_difference && is_below(after.first, before.first) {
        return Some(said(first, after.first, before.first, ""));
    }
    let [count, least] = [after.last - after_from, before.last - before_from];
    is_below(count, least).then(|| said(last, count, least, " since the scrape before"))
}

/// The labels that tell ranks apart, of all servers; those of a series' own, such as a histogram's `le`, do not.
fn rank(labels: &str) -> String {
    format!("{}, {}", named(labels, &SERVER), named(labels, &RANK))
}

/// The labels that tell processes apart.
fn process(labels: &str) -> String {
    format!("process {}", named(labels, &PROCESS))
}

/// Those of some labels that are there, as text.
fn named(labels: &str, names: &[&str]) -> String {
    let named = names.iter().filter_map(|name| Some(format!("{name} {}", label(labels, name)?)));
    named.collect::<Vec<_>>().join(", ")
}

/// Counters only grow: totals, and the parts of histograms.
fn is_counter(name: &str) -> bool {
    ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    /// As text, without braces.
    labels: &'a str,
    value: f64,
    /// When it was scraped, in whatever unit the text has.
    at: Option<f64>,
}

impl<'a> Sample<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (name, labels, rest) = if let Some((name, rest)) = line.split_once('{') {
            let end = end_of_labels(rest)?;
            (name, &rest[..end], &rest[end + 1..])
        } else {
            let (name, rest) = line.split_once(' ')?;
            (name, "", rest)
        };
        let mut words = rest.split_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        let at = words.next().and_then(|time| time.parse().ok()).filter(|time: &f64| time.is_finite());
        (!name.contains(' ')).then_some(Self { name, labels, value, at })
    }
}

/// Where the brace behind the labels stands: values are quoted and may hold braces.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.char_indices().find_map(|(at, letter)| {
        if letter == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = letter == '\\' && !escaped;
        (letter == '}' && !quoted).then_some(at)
    })
}

/// Labels by name, in one way to write them, whatever the order and the way in which a scrape has them.
fn in_order(labels: &str) -> Result<String, &'static str> {
    let mut each: Vec<(&str, Cow<'_, str>)> = Vec::new();
    let mut rest = labels.trim();
    while !rest.is_empty() {
        let ((name, value), behind) =
            pair(rest).ok_or("expected labels as name=\"value\", with commas between them")?;
        let value = if name == "le" { Cow::Owned(end_of_bucket(value)?) } else { Cow::Borrowed(value) };
        each.push((name, value));
        rest = behind;
    }
    each.sort();
    let each = each.iter().map(|(name, value)| format!("{name}=\"{value}\""));
    Ok(each.collect::<Vec<_>>().join(","))
}

/// The end of a bucket: `1`, `1.0` and `1e0` are one.
fn end_of_bucket(text: &str) -> Result<String, &'static str> {
    match text.parse::<f64>() {
        Ok(end) if end == f64::INFINITY => Ok("+Inf".to_owned()),
        Ok(end) if end.is_finite() => Ok(format!("{end:?}")),
        _ => Err("expected a number as le, the end of a bucket"),
    }
}

/// The first label with its value, as it is escaped, and what is behind them.
fn pair(labels: &str) -> Option<((&str, &str), &str)> {
    let (name, rest) = labels.split_once('=')?;
    let value = rest.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    let end = value.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })?;
    let behind = value[end + 1..].trim_start();
    let behind = if behind.is_empty() { behind } else { behind.strip_prefix(',')?.trim_start() };
    Some(((name.trim(), &value[..end]), behind))
}

/// All labels with their values.
fn pairs(labels: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = labels;
    std::iter::from_fn(move || {
        let (found, behind) = pair(rest)?;
        rest = behind;
        Some(found)
    })
}

/// The value of a label.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    pairs(labels).find(|(each, _)| *each == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Scrapes {
        let mut scrapes = Scrapes::default();
        for (line, number) in text.lines().zip(1..) {
            let place = Place { file: "metrics.txt".to_owned(), line: number };
            scrapes.take(line, &place).unwrap_or_else(|problem| panic!("{line}: {problem}"));
        }
        scrapes
    }

    fn ranges(scrapes: &Scrapes) -> Vec<(u32, u64)> {
        use crate::import::steps::{Bucket, Choice};
        let choice = Choice { max_requests: 1024, decode_tokens: 1, typical_requests: 1, bucket: Bucket::Upper };
        let rows = scrapes.iteration_tokens().resolve(&choice).rows;
        rows.iter().map(|(shape, count)| (shape.tokens, count.all)).collect()
    }

    const FIRST: &str = "\
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"1.0\",model_name=\"a}b\"} 80.0
vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"8.0\",model_name=\"a}b\"} 560.0
vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"16.0\",model_name=\"a}b\"} 850.0
vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"+Inf\",model_name=\"a}b\"} 851.0
vllm:iteration_tokens_total_sum{engine=\"0\",model_name=\"a}b\"} 9905.0
vllm:num_requests_running{engine=\"0\"} 12.0 1700000000
vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",num_gpu_blocks=\"2588\",num_gpu_blocks_override=\"None\"} 1.0
go_threads 9
";

    #[test]
    fn one_scrape_counts_since_the_start_and_two_the_difference() {
        let one = read(FIRST);
        assert_eq!(ranges(&one), [(1, 80), (8, 480), (16, 290), (17, 1)]);
        assert_eq!((one.counted_tokens(), one.gauge("vllm:num_requests_running")), (Some(9905.0), Some(12.0)));
        assert_eq!(one.settings.whole("num_gpu_blocks_override"), Some(2588));
        assert_eq!(one.settings.is_on("enable_prefix_caching"), Some(true));
        let later = FIRST.replace("} 560.0", "} 570.0").replace("} 850.0", "} 890.0").replace("} 851.0", "} 891.0");
        let both = read(&format!("{FIRST}{later}"));
        assert_eq!(ranges(&both), [(8, 10), (16, 30)]);
        assert!(both.restarted().is_none() && both.several_servers().is_none() && both.several_ranks().is_none());
        let again =
            read(&format!("{FIRST}{}", FIRST.replace("80.0", "8.0").replace("60.0", "6.0").replace("50.0", "5.0")));
        assert_eq!((again.restarted(), again.reversed()), (Some(Restarted::Perhaps), None));
    }

    #[test]
    fn a_server_that_began_anew_counts_since_then() {
        let scrape = |counts: [u32; 3], server: &str| {
            let ends = ["1.0", "8.0", "+Inf"].iter().zip(counts);
            let lines = ends.map(|(end, count)| {
                format!("vllm:iteration_tokens_total_bucket{{engine=\"{server}\",le=\"{end}\"}} {count}.0\n")
            });
            lines.collect::<Vec<_>>().concat()
        };
        // The first bucket has grown beyond what it was before; the second tells.
        let both = read(&(scrape([80, 560, 560], "0") + &scrape([100, 300, 300], "0")));
        assert_eq!(ranges(&both), [(1, 100), (8, 200)]);
        // Another server lives on.
        let two = scrape([1, 1, 1], "1") + &scrape([80, 560, 560], "0");
        let two = read(&(two + &scrape([4, 6, 6], "1") + &scrape([100, 300, 300], "0")));
        assert_eq!(ranges(&two), [(1, 103), (8, 202)]);
        assert_eq!((two.several_ranks().as_deref(), two.several_servers()), (Some("engine 0, 1"), None));
    }

    /// A histogram of these counts up to 1, 8, 16 and more tokens.
    fn histogram(counts: [i32; 4]) -> String {
        let lines = ["1.0", "8.0", "16.0", "+Inf"].iter().zip(counts);
        let lines = lines.map(|(end, count)| {
            format!("vllm:iteration_tokens_total_bucket{{engine=\"0\",le=\"{end}\",model_name=\"m\"}} {count}\n")
        });
        lines.collect()
    }

    /// Busier than before, so that no counter fell.
    #[test]
    fn a_server_that_says_it_began_anew_counts_since_then_whatever_it_counted_before() {
        let process = |at: u32| format!("process_start_time_seconds {at}\n");
        let created = |at: u32| format!("vllm:iteration_tokens_total_created{{engine=\"0\",model_name=\"m\"}} {at}\n");
        let (before, after) = (histogram([10, 60, 100, 100]), histogram([15, 90, 150, 150]));
        for start in [&process as &dyn Fn(u32) -> String, &created] {
            let anew = read(&(start(1000) + &before + &start(5000) + &after));
            assert_eq!(ranges(&anew), [(1, 15), (8, 75), (16, 60)]);
            assert_eq!((anew.restarted(), anew.reversed()), (Some(Restarted::Certainly), None));
            let goes_on = read(&(start(1000) + &before + &start(1001) + &after));
            assert_eq!((ranges(&goes_on), goes_on.restarted()), (vec![(1, 5), (8, 25), (16, 20)], None));
        }
        let elsewhere = |at: u32| format!("process_start_time_seconds{{instance=\"other\"}} {at}\n");
        let other = read(&(elsewhere(1000) + &before + &elsewhere(5000) + &after));
        assert_eq!((ranges(&other).len(), other.restarted()), (3, None));
        assert_eq!(ranges(&other)[0], (1, 5));
    }

    /// SGLang counts a mode from its first pass on.
    #[test]
    fn what_a_new_server_has_not_counted_yet_is_of_the_one_before() {
        let mut scrapes = Scrapes::default();
        let pass = |mode: &str, count: u32| format!("sglang:cuda_graph_passes_total{{mode=\"{mode}\"}} {count}");
        let older =
            ["process_start_time_seconds 1000".to_owned(), pass("decode_cuda_graph", 10), pass("decode_none", 7)];
        let newer = ["process_start_time_seconds 5000".to_owned(), pass("decode_cuda_graph", 30)];
        for (file, lines) in [("a.prom", &older[..]), ("b.prom", &newer[..])] {
            for line in lines {
                let place = Place { file: file.to_owned(), line: 1 };
                assert_eq!(scrapes.take(line, &place), Ok(true), "{line}");
            }
        }
        assert_eq!(scrapes.passes(), Some(Passes { decode: [30, 0], prefill: [0, 0] }));
    }

    #[test]
    fn labels_in_another_order_and_ends_written_in_another_way_are_the_same() {
        let first = histogram([10, 60, 100, 100]);
        let other = |text: &str| {
            text.replace("engine=\"0\",", "").replace(",model_name", ", engine=\"0\",model_name").replace(".0\"", "\"")
        };
        let second = other(&histogram([20, 120, 200, 200]));
        assert!(second.contains("{le=\"8\", engine=\"0\",model_name=\"m\"} 120"), "{second}");
        let both = read(&(first + &second));
        assert_eq!(ranges(&both), [(1, 10), (8, 50), (16, 40)]);
        for (one, same) in [("1", "1.0"), ("1.6e1", "16.0"), ("+Inf", "+Inf"), ("inf", "+Inf")] {
            assert_eq!(end_of_bucket(one).as_deref(), Ok(same));
        }
        let labels = in_order("b=\"x\\\", c=\\\"\", a = \"1}\",").expect("labels");
        assert_eq!(labels, "a=\"1}\",b=\"x\\\", c=\\\"\"");
        assert_eq!((label(&labels, "c"), label(&labels, "b")), (None, Some("x\\\", c=\\\"")));
    }

    #[test]
    fn counts_that_contradict_each_other_are_told_with_their_line() {
        let sound = histogram([10, 60, 100, 100]);
        for (text, contradiction) in [
            (sound.clone(), None),
            (sound.clone() + &histogram([10, 60, 100, 100]), None),
            (sound.clone() + &histogram([20, 70, 110, 130]), None),
            // Another server's may be smaller.
            (sound.clone() + &histogram([1, 2, 3, 4]).replace("engine=\"0\"", "engine=\"1\""), None),
            (
                histogram([50, 30, 100, 100]),
                Some((2, "it counts 30 steps of at most 8 tokens, and 50 of at most 1 tokens")),
            ),
            (histogram([10, 60, 100, 90]), Some((4, "it counts 90 steps of any size, and 100 of at most 16 tokens"))),
            (
                histogram([50, 30, 100, 100]) + &histogram([60, 130, 200, 200]),
                Some((2, "it counts 30 steps of at most 8 tokens, and 50 of at most 1 tokens")),
            ),
            (
                sound.clone() + &histogram([60, 70, 200, 200]),
                Some((6, "it counts 10 steps of at most 8 tokens since the scrape before, and 50 of at most 1 tokens")),
            ),
            (
                histogram([50, 0, 100, 100]) + &histogram([50, 60, 200, 200]),
                Some((2, "it counts 0 steps of at most 8 tokens, and 50 of at most 1 tokens")),
            ),
            (
                histogram([-5, 60, 100, 100]),
                Some((1, "vllm:iteration_tokens_total_bucket is -5, and no count is below zero")),
            ),
            (
                "sglang:cuda_graph_passes_total{mode=\"decode_none\"} -1\n".to_owned(),
                Some((1, "sglang:cuda_graph_passes_total is -1, and no count is below zero")),
            ),
        ] {
            let told = read(&text).contradiction();
            assert_eq!(told.as_ref().map(|(place, what)| (place.line, what.as_str())), contradiction, "{text}");
        }
    }

    #[test]
    fn servers_are_told_apart_by_their_labels() {
        let line = |labels: &str| format!("vllm:iteration_tokens_total_bucket{{{labels}le=\"8.0\"}} 5.0\n");
        let models = read(&(line("engine=\"0\",model_name=\"a\",") + &line("engine=\"0\",model_name=\"b\",")));
        let labels = vec![("model_name", vec!["a".to_owned(), "b".to_owned()])];
        assert_eq!((models.several_servers(), models.several_ranks()), (Some(SeveralServers { labels }), None));
        let partly = read(&(line("instance=\"h:1\",model_name=\"a\",") + &line("model_name=\"a\",")));
        let labels = vec![("instance", vec![String::new(), "h:1".to_owned()])];
        assert_eq!(partly.several_servers(), Some(SeveralServers { labels }));
        let no_rank = read(&(line("engine=\"0\",model_name=\"a\",") + &line("model_name=\"a\",")));
        let labels = vec![("engine", vec![String::new(), "0".to_owned()])];
        assert_eq!(no_rank.several_servers(), Some(SeveralServers { labels }));
    }

    /// A scrape of so many steps, by a process that began then, at a time.
    fn scrape(steps: u32, start: &str, at: &str) -> String {
        let start = if start.is_empty() { String::new() } else { format!("process_start_time_seconds {start}\n") };
        format!("{start}vllm:iteration_tokens_total_bucket{{engine=\"0\",le=\"8.0\"}} {steps}.0 {at}\n")
    }

    #[test]
    fn scrapes_in_the_wrong_order_are_told_from_a_new_start_by_times() {
        use Restarted::{Certainly, Perhaps};
        let cases = [
            // The same process: its counters cannot fall.
            (scrape(9, "1.7e+09", ""), scrape(5, "1.7e+09", ""), Some(Perhaps), true),
            (scrape(9, "1700000000.5", ""), scrape(5, "1700000001.25", ""), Some(Perhaps), true),
            (scrape(5, "1.7e+09", ""), scrape(9, "1.7e+09", ""), None, false),
            // One that began later, and one that began earlier, even where its counter had come further.
            (scrape(9, "1700000000", ""), scrape(5, "1700000500", ""), Some(Certainly), false),
            (scrape(9, "1700000500", ""), scrape(5, "1700000000", ""), Some(Perhaps), true),
            (scrape(5, "1700000500", ""), scrape(9, "1700000000", ""), None, true),
            // Times of the samples.
            (scrape(9, "", "2000"), scrape(5, "", "1000"), Some(Perhaps), true),
            (scrape(9, "", "1000"), scrape(5, "", "2000"), Some(Certainly), false),
            (scrape(9, "1.7e+09", "1000"), scrape(5, "1.7e+09", "2000"), Some(Certainly), false),
            // Neither.
            (scrape(9, "", ""), scrape(5, "", ""), Some(Perhaps), false),
        ];
        for (first, second, restarted, is_reversed) in cases {
            let both = read(&format!("{first}{second}"));
            assert_eq!((both.restarted(), both.reversed().is_some()), (restarted, is_reversed), "{first}{second}");
        }
        // What prometheus_client says of each counter, and a process of another host.
        let created = |at: u32| format!("vllm:iteration_tokens_total_created{{engine=\"0\"}} {at}\n");
        let both = scrape(9, "", "") + &created(1_700_000_000) + &scrape(5, "", "") + &created(1_700_000_000);
        let (place, why) = read(&both).reversed().expect("the counter is as old as it was");
        let expected = "vllm:iteration_tokens_total_bucket fell from 9 to 5, and the server did not begin anew";
        assert_eq!((place.line, why.as_str()), (3, expected));
        // A counter that came up late is younger than the others of its process.
        let late = "vllm:request_success_created{engine=\"0\",finished_reason=\"abort\"} 1700009000\n";
        let both = created(1_700_000_000) + late + &scrape(5, "", "") + &created(1_700_000_000) + late;
        assert_eq!(read(&(both + &scrape(9, "", ""))).reversed(), None);
        let elsewhere = "process_start_time_seconds{instance=\"other\"} 1.7e+09\n";
        let both = format!("{}{elsewhere}{}{elsewhere}", scrape(9, "", ""), scrape(5, "", ""));
        assert_eq!(read(&both).reversed(), None);
    }

    #[test]
    fn two_scrapes_with_nothing_between_them_are_told() {
        for (first, second, stood_still) in [(5, 5, true), (5, 6, false), (6, 5, false)] {
            let both = read(&(scrape(first, "", "") + &scrape(second, "", "")));
            assert_eq!(both.stood_still(), stood_still, "{first} {second}");
        }
        assert!(!read(&scrape(0, "", "")).stood_still(), "one scrape");
    }

    #[test]
    fn passes_of_sglang_by_phase() {
        let passes = read(
            "sglang:cuda_graph_passes_total{mode=\"decode_cuda_graph\",tp_rank=\"0\"} 9120.0\n\
             sglang:cuda_graph_passes_total{mode=\"decode_none\",tp_rank=\"0\"} 880.0\n\
             sglang:cuda_graph_passes_total{mode=\"decode_none\",tp_rank=\"1\"} 880.0\n\
             sglang:cuda_graph_passes_total{mode=\"prefill_none\",tp_rank=\"0\"} 44.0\n",
        );
        assert_eq!(passes.passes(), Some(Passes { decode: [9120, 880], prefill: [0, 44] }));
        assert_eq!(passes.engines(), [false, true]);
        let absurd = read(
            "sglang:cuda_graph_passes_total{mode=\"decode_none\",a=\"1\"} 1e300\n\
             sglang:cuda_graph_passes_total{mode=\"decode_none\",a=\"2\"} 1e300\n",
        );
        assert_eq!(absurd.passes(), Some(Passes { decode: [0, u64::MAX], prefill: [0, 0] }));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_nothing_fails() {
        let place = Place { file: String::new(), line: 1 };
        let line = "vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"8.0\"} 560.0";
        for end in 0..=line.len() {
            let _ = Scrapes::default().take(&line[..end], &place);
        }
        for wrong in [
            "vllm:x{a=\"b} 1",
            "vllm:x{a=\"b\" c=\"d\"} 1",
            "vllm:num_requests_running{} NaN",
            "vllm:iteration_tokens_total_bucket{le=\"+Inf\"} +Inf",
            "vllm:iteration_tokens_total_bucket{le=\"many\"} 1",
            "vllm:x",
            "vllm:x one",
        ] {
            assert!(Scrapes::default().take(wrong, &place).is_err(), "{wrong}");
        }
        for no_value in ["vllm:kv_cache_usage_perc{} NaN", "vllm:x +Inf"] {
            assert_eq!(Scrapes::default().take(no_value, &place), Ok(false), "{no_value}");
        }
    }
}
