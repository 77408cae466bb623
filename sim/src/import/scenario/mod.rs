//! The scenario that an import writes: the server as its sources tell it, the ladder in force as the first candidate, and the
//! traffic; with a comment at everything that says where it is from, or that it is assumed.

mod profile;
mod requests;
mod sglang;
mod text;
mod vllm;

use std::fmt::{self, Write as _};

use calibrate::profile::Profile;

pub use self::profile::{KnownDevice, nearest};
use self::text::Text;
pub use self::text::one_line;
use super::found::{Engine, Found, STATISTICS, Source, StepSource};
use super::prometheus::RUNNING;
use super::requests::Requests;
use super::settings::Known;
use super::steps::{Bucket, Choice, Count, Resolved};

/// Rows of steps that a scenario holds itself; more go into a file beside it.
pub const ROWS_INLINE: usize = 5_000;

/// What the user says about the scenario.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The engine.
    pub engine: Engine,
    /// The profile, and the name or path that the scenario gives for it.
    pub profile: Profile,
    /// How `[profile]` names it.
    pub profile_line: String,
    /// Whether it was chosen for the user.
    pub profile_is_guess: bool,
    /// What stands for a range of tokens.
    pub bucket: Bucket,
    /// The name of the file that rows of steps go into where there are too many of them.
    pub steps_file: String,
    /// How the scenario names the trace of its requests.
    pub trace_file: String,
    /// The seed of the traffic.
    pub seed: u64,
}

/// A scenario, with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The scenario.
    pub text: String,
    /// The rows of its steps as CSV, where they are in a file of their own.
    pub steps_csv: Option<String>,
    /// What its traffic is.
    pub traffic: Made,
    /// What was assumed, in sentences.
    pub assumed: Vec<String>,
    /// What the sources leave open, in sentences.
    pub unresolved: Vec<String>,
}

/// What a traffic is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// What told of it.
    pub from: &'static str,
    /// How many steps or requests it has.
    pub count: u64,
    /// Of steps; `None` of requests.
    pub steps: Option<MadeOfSteps>,
    /// What must stand beside every answer about it.
    pub caution: Option<&'static str>,
}

/// What else is known of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeOfSteps {
    /// Different shapes.
    pub shapes: usize,
    /// Steps whose requests or tokens are assumed.
    pub assumed: u64,
}

/// In words.
impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(MadeOfSteps { shapes, .. }) = self.steps else { return write!(f, "{} requests", self.count) };
        let guessed = if self.from == STATISTICS { ", guessed," } else { "" };
        write!(f, "{} steps of {shapes} shapes{guessed}", self.count)
    }
}

/// What was assumed, as it comes up.
#[derive(Debug, Default)]
struct Assumed(Vec<String>);

impl Assumed {
    /// Notes an assumption, and gives the comment for its line.
    fn note(&mut self, sentence: String) -> &'static str {
        self.0.push(sentence);
        "assumed"
    }
}

/// Writes the scenario of steps.
#[must_use]
pub fn of_steps(found: &Found, steps: &StepSource, wish: &Wish) -> Written {
    let mut assumed = Assumed::default();
    let limits = match wish.engine {
        Engine::Vllm => vllm::limits(found, &steps.steps, wish),
        Engine::Sglang => sglang::limits(found),
    };
    let (typical, typical_from) = typical_requests(found, steps);
    let choice = Choice {
        max_requests: limits,
        decode_tokens: found.decode_tokens(wish.engine),
        typical_requests: typical,
        bucket: wish.bucket,
    };
    let resolved = steps.steps.resolve(&choice);
    let mut unresolved = steps.unresolved.clone();
    unresolved.extend(bounds(&resolved, &choice, &typical_from));
    let mut body = Text::default();
    server(&mut body, found, Some(steps), wish, &mut assumed);
    profile_table(&mut body, wish, &mut assumed);
    let steps_csv = traffic(&mut body, steps.caution, &resolved, wish);
    candidates(&mut body, found, wish, &mut assumed);
    let mut text = head(found, &unresolved, &assumed.0);
    text += &body.finish();
    let Count { all, assumed: of_assumed } = resolved.steps();
    // Nothing of a guess is known, though its shapes are whole.
    let of_assumed = if steps.what == STATISTICS { all } else { of_assumed };
    let made_of = MadeOfSteps { shapes: resolved.rows.len(), assumed: of_assumed };
    let traffic = Made { from: steps.what, count: all, steps: Some(made_of), caution: steps.caution };
    Written { text, steps_csv, traffic, assumed: assumed.0, unresolved }
}

/// Writes the scenario of requests.
#[must_use]
pub fn of_requests(found: &Found, requests: &Requests, wish: &Wish) -> Written {
    let mut assumed = Assumed::default();
    let mut unresolved = requests.unresolved.clone();
    for other in &found.other_requests {
        unresolved.push(format!("The requests of the {other} were given as well and are not used."));
    }
    if let Some(steps) = found.steps(wish.engine) {
        unresolved.push(format!("The {} were given as well: the requests make steps of their own.", steps.what));
    }
    let mut body = Text::default();
    server(&mut body, found, None, wish, &mut assumed);
    profile_table(&mut body, wish, &mut assumed);
    requests::traffic(&mut body, found, requests, wish, &mut assumed);
    candidates(&mut body, found, wish, &mut assumed);
    let mut text = head(found, &unresolved, &assumed.0);
    text += &body.finish();
    let traffic = Made { from: requests.what, count: requests.count, steps: None, caution: None };
    Written { text, steps_csv: None, traffic, assumed: assumed.0, unresolved }
}

/// Requests that a step with a prefill is taken to have, and why.
fn typical_requests(found: &Found, steps: &StepSource) -> (u32, String) {
    let whole = |mean: f64| (mean.round() as u32).max(1);
    if let Some(mean) = steps.steps.mean_requests() {
        return (whole(mean), "the mean of the steps whose requests are known".to_owned());
    }
    if let Some(mean) = found.log.statistics.mean_running() {
        return (whole(mean), "the mean of the statistics lines".to_owned());
    }
    if let Some(running) = RUNNING.iter().find_map(|name| found.scrapes.gauge(name)).filter(|running| *running > 0.0) {
        return (whole(running), "the running requests of the metrics".to_owned());
    }
    (1, "nothing is known of the batch beside a prefill".to_owned())
}

/// What was decided for open steps, with the bounds of the decision.
fn bounds(resolved: &Resolved, choice: &Choice, typical_from: &str) -> Vec<String> {
    let steps = resolved.steps();
    let mut sentences = Vec::new();
    let mean = |sum: u128| sum as f64 / steps.assumed.max(1) as f64;
    if steps.assumed > 0 {
        let [least, chosen, most] = resolved.assumed_requests.map(mean);
        sentences.push(format!(
            "The requests of {} of {} steps are not known: between {least:.1} and {most:.1} a step on average, taken as \
             {chosen:.1}. A step that can be a decode batch is taken as one; any other as one prefill among {} requests, {}.",
            steps.assumed, steps.all, choice.typical_requests, typical_from
        ));
    }
    let [least, chosen, most] = resolved.tokens;
    if least < most {
        let stands = match choice.bucket {
            Bucket::Upper => "its upper end",
            Bucket::Lower => "its lower end",
            Bucket::Even => "all its sizes alike",
        };
        sentences.push(format!(
            "The tokens of all steps together are between {least} and {most}; for each range {stands} (--buckets), {chosen} in \
             all."
        ));
    }
    sentences
}

/// Comments on where everything is from.
fn head(found: &Found, unresolved: &[String], assumed: &[String]) -> String {
    let mut text = Text::default();
    text.comment(0, "Written by sim import. Look at what is assumed before you trust an answer.");
    text.line("#");
    text.comment(0, "Read:");
    for source in &found.sources {
        text.comment(2, &read(source));
    }
    let taken: Vec<String> = found.log.taken.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if !taken.is_empty() {
        text.comment(2, &format!("In them: {}.", taken.join(", ")));
    }
    let facts: Vec<String> = found
        .log
        .start
        .values()
        .map(|known| format!("{}: {} ({})", known.value.name(), known.value, known.place))
        .collect();
    let measured = found.requests.iter().flat_map(|requests| requests.measured.clone()).collect::<Vec<_>>();
    list(&mut text, "Measured there, to compare with `sim run`:", &measured);
    let captures = found.log.captures.iter().map(|(what, known)| format!("{what}: {} ({})", known.value, known.place));
    let facts: Vec<String> = facts.into_iter().chain(captures).chain(graph_memory(found)).collect();
    list(&mut text, "What the start took, to compare with `sim startup`:", &facts);
    list(&mut text, "Not read:", &found.not_read());
    list(&mut text, "Not told by these sources:", unresolved);
    list(&mut text, "Assumed:", assumed);
    text.finish()
}

fn list(text: &mut Text, title: &str, sentences: &[String]) {
    if !sentences.is_empty() {
        text.line("#");
        text.comment(0, title);
        for sentence in sentences {
            text.comment(2, sentence);
        }
    }
}

/// Device memory that each size took, as SGLang's progress bars tell it: what was left before it and before the next. A bar
/// that left sizes out, as it does where captures are quick, tells nothing.
fn graph_memory(found: &Found) -> impl Iterator<Item = String> {
    let (phases, log) = (["decode", "prefill"], &found.log);
    phases.into_iter().zip(log.progress.iter().zip(&log.captured)).filter_map(|(phase, (sizes, captured))| {
        if captured.as_ref().is_none_or(|captured| captured.value.len() != sizes.len()) {
            return None;
        }
        let taken = sizes.windows(2).map(|pair| format!("{} {:.2} GiB", pair[0].0, pair[0].1 - pair[1].1));
        let taken: Vec<String> = taken.collect();
        (!taken.is_empty()).then(|| format!("memory of {phase} graphs by size: {}", taken.join(", ")))
    })
}

/// One source in a line.
fn read(source: &Source) -> String {
    let Source { origin, kind, lines, replaced_lines, .. } = source;
    let unit = if kind.trace_format().is_some() { "rows" } else { "lines" };
    let size = if *lines > 0 { format!("{lines} {unit}") } else { format!("{} bytes", origin.bytes) };
    let replaced = if *replaced_lines > 0 { format!("; {replaced_lines} of them not UTF-8") } else { String::new() };
    format!("{}: {}, {size}, SHA-256 {}{replaced}", origin.name, source.what(), origin.sha256)
}

fn server(text: &mut Text, found: &Found, steps: Option<&StepSource>, wish: &Wish, assumed: &mut Assumed) {
    text.line("schema = 1");
    let names: Vec<&str> = found.sources.iter().map(|source| source.origin.name.as_str()).collect();
    let name: String = format!("Import of {}", names.join(", ")).chars().take(NAME_MAX).collect();
    text.key("name", Text::string(&one_line(&name)), "");
    text.line("");
    match wish.engine {
        Engine::Vllm => vllm::server(text, found, steps, wish, assumed),
        Engine::Sglang => sglang::server(text, found, steps.is_none(), assumed),
    }
}

/// The most characters of a name in a scenario.
const NAME_MAX: usize = 120;

/// A length that no request of the traffic exceeds, where the log does not say the server's own: whole KiB.
fn room_for_requests(found: &Found) -> u64 {
    let longest = found.requests.as_ref().map_or(0, |requests| requests.longest_tokens);
    (longest + 64).next_multiple_of(1024)
}

fn profile_table(text: &mut Text, wish: &Wish, assumed: &mut Assumed) {
    let identity = &wish.profile.identity;
    text.line("");
    text.line("[profile]");
    let from = if wish.profile_is_guess {
        assumed.note(format!(
            "the costs are those of {} on {}, the nearest built-in profile, not of your server: measure them with `calibrate \
             --device 0`, or choose with --profile (`calibrate list`)",
            identity.model_name, identity.device
        ));
        "assumed: not your server's"
    } else {
        ""
    };
    text.key(if wish.profile_line.starts_with("file:") { "file" } else { "builtin" }, profile_value(wish), from);
}

fn profile_value(wish: &Wish) -> String {
    let (_, name) = wish.profile_line.split_once(':').unwrap_or(("", &wish.profile_line));
    Text::string(name)
}

/// The steps; as CSV where they are too many for the scenario.
fn traffic(text: &mut Text, caution: Option<&str>, resolved: &Resolved, wish: &Wish) -> Option<String> {
    text.line("");
    text.line("[traffic]");
    if let Some(caution) = caution {
        text.key("caution", Text::string(caution), "");
    }
    if resolved.rows.len() > ROWS_INLINE {
        text.key("steps_file", Text::string(&wish.steps_file), "");
        let mut csv = String::from("tokens,requests,query_len,count\n");
        for (shape, count) in &resolved.rows {
            writeln!(csv, "{},{},{},{}", shape.tokens, shape.requests, shape.query_len, count.all)
                .expect("writing to a string cannot fail");
        }
        return Some(csv);
    }
    text.line("steps = [");
    for (shape, count) in &resolved.rows {
        let from = match count.assumed {
            0 => "",
            assumed if assumed == count.all => "  # requests or tokens assumed",
            _ => "  # of some, requests or tokens assumed",
        };
        text.line(format_args!(
            "  {{ tokens = {}, requests = {}, query_len = {}, count = {} }},{from}",
            shape.tokens, shape.requests, shape.query_len, count.all
        ));
    }
    text.line("]");
    None
}

/// How often the server started, and the model that it serves: the end of its part, whichever engine it is.
fn starts_and_model(text: &mut Text, starts: u32, model: Option<&Known<String>>, assumed: &mut Assumed) {
    if starts > 1 {
        assumed.note(format!(
            "the log holds {starts} starts of a server: its flags are those of the last one, its steps those of all"
        ));
    }
    if let Some(model) = model {
        text.line("");
        text.line("[model]");
        let name: String = model.value.chars().take(NAME_MAX).collect();
        text.key("name", Text::string(&one_line(&name)), &model.place);
    }
}

fn candidates(text: &mut Text, found: &Found, wish: &Wish, assumed: &mut Assumed) {
    text.line("");
    text.comment(0, "The ladder in force: what `sim propose` replaces.");
    text.line("[[candidate]]");
    text.line("name = \"in force\"");
    match wish.engine {
        Engine::Vllm => vllm::candidates(text, found, assumed),
        Engine::Sglang => sglang::candidates(text, found, assumed),
    }
}

/// Begins another candidate.
fn candidate(text: &mut Text, name: &str) {
    text.line("");
    text.line("[[candidate]]");
    text.key("name", Text::string(name), "");
}
