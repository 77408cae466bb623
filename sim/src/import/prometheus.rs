//! What a server's `/metrics` says: Prometheus's text format, one scrape or several.
//!
//! Counters count since the start of the server. Of a counter that is there twice, in two scrapes, the difference counts; of
//! one that is there once, all of it. Where any counter of a server fell, the server began anew between two scrapes, and all its
//! counters count since then.

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

/// Labels of a server, and of an engine in it.
const SERVER: [&str; 6] = ["instance", "pod", "job", "model_name", "engine", "dp_rank"];

/// Metrics that count steps.
const STEPS: [&str; 2] = ["vllm:iteration_tokens_total_bucket", "sglang:cuda_graph_passes_total"];

/// A series' first and last value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Series {
    first: f64,
    last: f64,
    /// How often it was there.
    seen: u64,
    sum: f64,
}

/// What was scraped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrapes {
    /// By name, then by labels as text.
    series: BTreeMap<String, BTreeMap<String, Series>>,
    count: usize,
    /// Settings that are labels: of the KV cache.
    pub settings: Settings,
    /// Servers of which a counter fell between two scrapes.
    restarted: BTreeSet<String>,
    /// Of the steps that are counted: whose they are.
    servers: BTreeSet<String>,
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
        if line.starts_with('#') || !Self::knows(line) {
            return Ok(false);
        }
        let (name, labels, value) = sample(line).ok_or("expected name{labels} value")?;
        if name == "vllm:cache_config_info" {
            self.cache_config(labels, place);
        }
        let series = self.series.entry(name.to_owned()).or_default();
        match series.get_mut(labels) {
            Some(series) => {
                if value < series.last && is_counter(name) {
                    self.restarted.insert(server(labels));
                }
                series.last = value;
                series.seen += 1;
                series.sum += value;
            }
            None if self.count < SERIES_MAX => {
                self.count += 1;
                if STEPS.contains(&name) {
                    self.servers.insert(server(labels));
                }
                series.insert(labels.to_owned(), Series { first: value, last: value, seen: 1, sum: value });
            }
            None => return Err("there are too many different series"),
        }
        Ok(true)
    }

    fn cache_config(&mut self, labels: &str, place: &Place) {
        for (name, wants) in CACHE_CONFIG {
            let key = if name == "num_gpu_blocks" { "num_gpu_blocks_override" } else { name };
            if let Some(value) = label(labels, name).and_then(|value| wants.read(&value)) {
                self.settings.set(key, value, place);
            }
        }
    }

    /// How much the counters of a name grew, by labels.
    fn grown<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
        let series = self.series.get(name).into_iter().flatten();
        series.map(|(labels, series)| {
            let is_since_start = series.seen < 2 || self.restarted.contains(&server(labels));
            let from = if is_since_start { 0.0 } else { series.first };
            (labels.as_str(), (series.last - from).max(0.0))
        })
    }

    /// Whether a counter fell between two scrapes: a server began anew, or the scrapes are not in order of time.
    #[must_use]
    pub fn restarted(&self) -> bool {
        !self.restarted.is_empty()
    }

    /// The servers whose steps are counted, by the labels that tell them apart, where there are several.
    #[must_use]
    pub fn several_servers(&self) -> Option<String> {
        let named: Vec<&str> =
            self.servers.iter().map(|server| if server.is_empty() { "unnamed" } else { server }).collect();
        (named.len() > 1).then(|| named.join("; "))
    }

    /// vLLM's histogram of tokens by step, as ranges.
    #[must_use]
    pub fn iteration_tokens(&self) -> SeenSteps {
        let mut by_end: BTreeMap<u64, f64> = BTreeMap::new();
        let mut all = 0.0;
        for (labels, count) in self.grown("vllm:iteration_tokens_total_bucket") {
            match label(labels, "le").as_deref() {
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
        let sum: f64 = self.grown("vllm:iteration_tokens_total_sum").map(|(_, tokens)| tokens).sum();
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
        for (labels, count) in self.grown("sglang:cuda_graph_passes_total").filter(|(labels, _)| is_first(labels)) {
            let (phase, graph) = match label(labels, "mode").as_deref() {
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

/// The labels that tell servers apart; those of a series' own, such as a histogram's `le`, do not.
fn server(labels: &str) -> String {
    let named = SERVER.iter().filter_map(|name| Some(format!("{name} {}", label(labels, name)?)));
    named.collect::<Vec<_>>().join(", ")
}

/// Counters only grow: totals, and the parts of histograms.
fn is_counter(name: &str) -> bool {
    ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

/// Name, labels as text, and value of a sample; a time behind it is passed over.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, labels, rest) = if let Some((name, rest)) = line.split_once('{') {
        let end = end_of_labels(rest)?;
        (name, &rest[..end], &rest[end + 1..])
    } else {
        let (name, rest) = line.split_once(' ')?;
        (name, "", rest)
    };
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && !name.contains(' ')).then_some((name, labels, value))
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

/// The value of a label.
fn label(labels: &str, name: &str) -> Option<String> {
    labels.match_indices(name).find_map(|(at, _)| {
        let begins = labels[..at].chars().next_back().is_none_or(|before| before == ',' || before == ' ');
        let rest = labels[at + name.len()..].strip_prefix("=\"")?;
        begins.then(|| rest.split('"').next().map(str::to_owned)).flatten()
    })
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
        assert!(!both.restarted() && both.several_servers().is_none());
        let again =
            read(&format!("{FIRST}{}", FIRST.replace("80.0", "8.0").replace("60.0", "6.0").replace("50.0", "5.0")));
        assert!(again.restarted());
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
        assert_eq!(two.several_servers().as_deref(), Some("engine 0; engine 1"));
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
        for wrong in ["vllm:x{a=\"b} 1", "vllm:x{} NaN", "vllm:x", "vllm:x one"] {
            assert!(Scrapes::default().take(wrong, &place).is_err(), "{wrong}");
        }
    }
}
