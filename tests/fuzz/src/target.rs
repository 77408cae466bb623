//! What can be fed.

use std::ffi::OsStr;
use std::fmt::Display;
use std::time::Duration;

use calibrate::profile::Profile;
use calibrate::replay::StepLog;
use calibrate::served_model::{ModelRequest, ServedModel};
use reports::{SeedFigures, Threshold};
use sim::import::line::LogLine;
use sim::import::sglang::{captures::CaptureLine, command_line, steps::StepLine};
use sim::import::vllm::graph_table::{GraphTableReader, TableStep};
use sim::import::vllm::{batch_sizes, iteration::Iteration, startup};
use sim::scenario::size::parse_size;
use sim::sweep::{Axis, Environment, Shard};
use sim::traffic::{BadRows, ColumnNames, TimeUnit, TraceFormat, TraceReader, TraceSource, Unsorted, Wanted};
use sim::watch::recording::{Choice, Recording};
use sim::watch::source::{Next, Source};

use crate::{command, files};

/// One parser.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder under `corpus/`.
    pub name: &'static str,
    /// Feeds it.
    pub feed: fn(&[u8]),
}

impl Target {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self { name: "scenario", feed: scenario },
        Self { name: "histogram", feed: histogram },
        Self { name: "profile", feed: profile },
        Self { name: "trace", feed: trace },
        Self { name: "log", feed: log },
        Self { name: "import", feed: import },
        Self { name: "fit", feed: fit },
        Self { name: "fit_onto", feed: fit_onto },
        Self { name: "validate", feed: validate },
        Self { name: "words", feed: words },
        Self { name: "model", feed: model },
        Self { name: "results", feed: results },
        Self { name: "sweep", feed: sweep },
        Self { name: "recording", feed: recording },
        Self { name: "replay", feed: replay },
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|target| target.name == name)
    }
}

/// Scenario files, and the ladders, memory and warnings of those that are accepted.
fn scenario(data: &[u8]) {
    let path = files::one("scenario.toml", data);
    command::sim(&["check".as_ref(), path.as_os_str()]);
}

/// Histograms of step shapes, and the prices of those that are accepted.
fn histogram(data: &[u8]) {
    files::one("steps.csv", data);
    let path = files::one("histogram.toml", HISTOGRAM_SCENARIO.as_bytes());
    command::sim(&["price".as_ref(), path.as_os_str()]);
}

const HISTOGRAM_SCENARIO: &str = r#"
schema = 1
name = "a histogram"
[server.vllm]
version = "0.33.0"
max_num_seqs = 64
max_num_batched_tokens = 2048
max_model_len = 4096
[profile]
builtin = "textbook"
[traffic]
steps_file = "steps.csv"
"#;

/// Cost profiles, the same written and read again, and a step priced with those that are accepted.
fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Profile::from_toml(text, "profile.toml") {
        Ok(profile) => {
            let written = profile.to_toml();
            let again = Profile::from_toml(&written, "written.toml").expect("what is written can be read");
            assert_eq!(again.to_toml(), written);
            let path = files::one("profile.toml", data);
            let profile = path.as_os_str();
            for words in
                [["explain", "--decodes", "9", "--context", "1000"], ["explain", "--decodes", "70", "--context", "9"]]
            {
                let mut line: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
                line.extend(["--profile".as_ref(), profile]);
                command::sim(&line);
            }
        }
        Err(error) => calibrate::stderr::report(&error),
    }
}

/// Traces of every format, told and found. The first byte chooses how they are read.
fn trace(data: &[u8]) {
    let Some((&way, rows)) = data.split_first() else { return };
    let columns = |time_unit| {
        TraceFormat::Csv(Box::new(ColumnNames {
            arrival: "arrival".to_owned(),
            prompt: "prompt".to_owned(),
            output: "output".to_owned(),
            time_unit,
            labels: sim::traffic::LabelColumns {
                priority: (way & 64 != 0).then(|| "priority".to_owned()),
                adapter: (way & 64 != 0).then(|| "adapter".to_owned()),
                prefix: (way & 128 != 0).then(|| ["prefix".to_owned(), "prefix_tokens".to_owned()]),
            },
        }))
    };
    let format = match way & 7 {
        0 => Some(columns(Some(TimeUnit::Seconds))),
        1 => Some(columns(Some(TimeUnit::Nanoseconds))),
        2 => Some(columns(None)),
        3 => Some(TraceFormat::Azure),
        4 => Some(TraceFormat::Vidur),
        5 => Some(TraceFormat::Mooncake),
        _ => None,
    };
    let source = TraceSource {
        path: files::one("trace", rows),
        format,
        rate_multiplier: if way & 8 == 0 { 1.0 } else { 1e-9 },
        limit: None,
        unsorted: if way & 16 == 0 { Unsorted::Refuse } else { Unsorted::Sort },
        bad_rows: if way & 32 == 0 { BadRows::Refuse } else { BadRows::Skip },
    };
    for wanted in [Wanted::ALL, Wanted::ARRIVALS, Wanted::LENGTHS] {
        let mut reader = match TraceReader::open(&source, wanted) {
            Ok(reader) => reader,
            Err(error) => return calibrate::stderr::report(&error),
        };
        let mut before = None;
        loop {
            match reader.next_request() {
                Ok(Some(request)) => {
                    assert!(!wanted.arrivals || before <= Some(request.arrival), "arrivals are in order");
                    before = Some(request.arrival);
                }
                Ok(None) => break,
                Err(error) => break calibrate::stderr::report(&error),
            }
        }
    }
}

/// Lines of logs, each by every reader.
fn log(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut table = GraphTableReader::default();
    for raw in text.split('\n') {
        let line = LogLine::of(raw);
        assert_eq!(LogLine::of(&line.text).text.matches('\u{1b}').count(), 0, "no escape sequence is left");
        match table.take(&line.text) {
            Ok(TableStep::Over(table)) => drop(table.text()),
            Ok(_) => {}
            Err(fault) => say(&fault),
        }
        let _ = startup::read(&line.text);
        hear(batch_sizes::read(&line.text));
        hear(Iteration::read(&line.text));
        hear(StepLine::read(&line.text));
        hear(CaptureLine::read(&line.text));
    }
    hear(table.finish());
}

/// Logs, metrics, results and traces of every kind, one file or two; the scenario that comes of them must be sound.
fn import(data: &[u8]) {
    let folder = files::several("import", &["first", "second"], data);
    let (first, second, written) = (folder.join("first"), folder.join("second"), folder.join("written.toml"));
    let mut words: Vec<&OsStr> = vec!["import".as_ref(), first.as_os_str()];
    if second.exists() {
        words.push(second.as_os_str());
    }
    words.extend(["--out".as_ref(), written.as_os_str()]);
    if command::sim(&words) {
        assert!(command::sim(&["check".as_ref(), written.as_os_str()]), "what was imported is sound");
    }
}

/// Tables of measured times, one file or two; the profile that comes of them must be sound.
fn fit(data: &[u8]) {
    let folder = files::several("fit", &["first.csv", "second.csv"], data);
    let (first, second, written) = (folder.join("first.csv"), folder.join("second.csv"), folder.join("written.toml"));
    let mut words: Vec<&OsStr> = vec!["fit".as_ref(), first.as_os_str()];
    if second.exists() {
        words.push(second.as_os_str());
    }
    words.extend(["--out".as_ref(), written.as_os_str()]);
    if command::sim(&words) {
        Profile::load(&written).expect("what was fitted is sound");
    }
}

/// Logs that the engine half of a profile is fitted to.
fn fit_onto(data: &[u8]) {
    let folder = files::several("onto", &["server.log"], data);
    let (log, written) = (folder.join("server.log"), folder.join("written.toml"));
    let words = ["fit", "--onto", "h100-llama-2-7b"].map(OsStr::new);
    let files = [log.as_os_str(), "--out".as_ref(), written.as_os_str()];
    if command::sim(&[words, files].concat()) {
        Profile::load(&written).expect("what was fitted is sound");
    }
}

/// A measured run.
fn validate(data: &[u8]) {
    let names = ["vllm_run_x_meta.json", "vllm_run_x_requests.jsonl", "vllm_run_x_timeseries.csv", "heads.csv"];
    let folder = files::several("runs", &names, data);
    let heads = folder.join("heads.csv");
    if heads.exists() {
        command::sim(&["validate".as_ref(), folder.as_os_str(), "--heads".as_ref(), heads.as_os_str()]);
    } else {
        command::sim(&["validate".as_ref(), folder.as_os_str()]);
    }
}

/// Words of the command line that have a grammar of their own, and lines of flags.
fn words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    hear(parse_size(text));
    hear(text.parse::<Axis>());
    hear(text.parse::<Threshold>());
    hear(Shard::read(text, &Environment::default()));
    if let Some(words) = sim::flags::shell::words(text) {
        let again = sim::flags::shell::words(&sim::flags::shell::line(&words));
        assert_eq!(again, Some(words.clone()), "words quoted for a shell are the same words");
        hear(command_line::read(&words));
    }
}

/// `config.json` of models.
fn model(data: &[u8]) {
    let path = files::one("config.json", data);
    for ranks in [1, 4] {
        let name = path.to_str().expect("a name of ASCII");
        let request = ModelRequest { name, ranks, shapes_only: true };
        if let Err(error) = ServedModel::find(&request) {
            calibrate::stderr::report(&error);
        }
    }
}

/// What `sim run --out` wrote, as a page, as Markdown and compared with itself.
fn results(data: &[u8]) {
    let names = ["run.json", "figures.csv", "requests.csv", "history.json", "profile.toml"];
    let folder = files::several("results", &names, data);
    let page = files::folder().join("page.html");
    command::sim(&["report".as_ref(), folder.as_os_str(), "--out".as_ref(), page.as_os_str()]);
    command::sim(&["report".as_ref(), folder.as_os_str(), "--markdown".as_ref()]);
    command::sim(&["report".as_ref(), "--compare".as_ref(), folder.as_os_str(), folder.as_os_str()]);
    hear(SeedFigures::read(data));
}

/// What `sim sweep` left, put together.
fn sweep(data: &[u8]) {
    let folder = files::several("sweep", &["manifest.json", "figures.csv", "reports.jsonl"], data);
    command::sim(&["merge".as_ref(), folder.as_os_str()]);
}

/// Step logs that are watched, with the requests and the report beside them.
fn recording(data: &[u8]) {
    let folder = files::several("recording", &["steps.jsonl", "run.json", "requests.csv"], data);
    let recording = match Recording::open(&folder) {
        Ok(recording) => recording,
        Err(error) => return calibrate::stderr::report(&error),
    };
    let chosen = match recording.choose(&Choice::default()) {
        Ok(chosen) => chosen,
        Err(error) => return calibrate::stderr::report(&error),
    };
    for mut source in chosen.sources {
        loop {
            match source.next(Duration::ZERO) {
                Ok(Next::Fact(_)) => {}
                Ok(Next::NotYet | Next::End(_)) => break,
                Err(error) => break calibrate::stderr::report(&error),
            }
        }
    }
}

/// Step logs that are run again on a GPU.
fn replay(data: &[u8]) {
    let path = files::one("replay.jsonl", data);
    match StepLog::load(&path) {
        Ok(log) => drop(log.steps()),
        Err(error) => calibrate::stderr::report(&error),
    }
}

/// What was refused is put into words.
fn hear<T, E: Display>(result: Result<T, E>) {
    if let Err(error) = result {
        say(&error);
    }
}

fn say(error: &impl Display) {
    drop(error.to_string());
}
