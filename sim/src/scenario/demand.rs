//! The traffic of a scenario: arrivals, lengths, traces and step histograms.

use std::fs::File;
use std::path::Path;

use toml::Spanned;

use super::check::{Check, range_help};
use super::file::{
    ArrivalsFile, ColumnsFile, HistogramRowFile, LengthsFile, LogNormalLengthFile, Real, StepFile, TimeUnitFile,
    TraceFile, TraceFormatFile, TrafficFile, UniformFile, Whole,
};
use super::{ScenarioError, Span};
use crate::engine::options::Limits;
use crate::engine::refusal;
use crate::limits::{
    BURSTINESS, COUNT_MAX, HISTOGRAM_ROWS_MAX, RATE_MAX, RATE_MIN, RATE_MULTIPLIER_MAX, REQUEST_TOKENS_MAX,
    REQUESTS_MAX, SEQUENCES_MAX, SIGMA_MAX, SPAN_S_MAX,
};
use crate::traffic::{
    Arrivals, Clip, ColumnNames, LengthPair, Lengths, LogNormalLength, Spread, StepHistogram, StepRow, TimeUnit,
    TraceFormat, TraceReader, TraceSource, Traffic, TrafficError, TrafficKind, Wanted,
};

/// The standard normal's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

/// Checks `[traffic]` against what the server can take.
pub(super) fn traffic(
    check: &mut Check<'_>,
    file: &TrafficFile,
    span: &Span,
    limits: &Limits,
    base_dir: &Path,
) -> Result<Traffic, ScenarioError> {
    let seed = file.seed.as_ref().map(|seed| check.whole(seed, 0, i64::MAX as u64)).transpose()?.unwrap_or(0);
    let requests = file.requests.as_ref().map(|count| check.whole(count, 1, REQUESTS_MAX)).transpose()?;
    if let Some(histogram) = steps(check, file, base_dir)? {
        warn_about_impossible_steps(check, &histogram, limits, span);
        return Ok(Traffic { seed, requests: None, kind: TrafficKind::Steps(histogram) });
    }
    let Some(arrivals_file) = &file.arrivals else {
        let help = "add [traffic.arrivals.…] (poisson, gamma, constant, on_off, closed_loop or trace), or \
                    [[traffic.steps]] for `sim price`";
        return Err(check.reject(span, "arrivals are missing", help));
    };
    let Some(lengths_file) = &file.lengths else {
        let ArrivalsFile::Trace(trace_file) = arrivals_file.get_ref() else {
            let help = "add [traffic.lengths.…] (fixed, uniform, lognormal, histogram or trace)";
            return Err(check.reject(span, "lengths are missing", help));
        };
        let source = trace(check, trace_file, Wanted::ALL, base_dir)?;
        return Ok(Traffic { seed, requests, kind: TrafficKind::Trace(source) });
    };
    let arrivals = arrivals(check, arrivals_file.get_ref(), base_dir)?;
    let lengths = lengths(check, lengths_file, limits.request_tokens.value, base_dir)?;
    refuse_trace_played_twice(check, &arrivals, &lengths, &lengths_file.span())?;
    check_end(check, &arrivals, &lengths, requests, &arrivals_file.span(), span)?;
    Ok(Traffic { seed, requests, kind: TrafficKind::Synthetic { arrivals, lengths } })
}

fn refuse_trace_played_twice(
    check: &Check<'_>,
    arrivals: &Arrivals,
    lengths: &Lengths,
    span: &Span,
) -> Result<(), ScenarioError> {
    match (arrivals, lengths) {
        (Arrivals::Trace(times), Lengths::Trace { source, .. }) if times.path == source.path => Err(check.reject(
            span,
            "arrivals and lengths name the same trace",
            "leave [traffic.lengths] out: the rows of [traffic.arrivals.trace] then give both",
        )),
        _ => Ok(()),
    }
}

/// Whether the traffic ends, and before the clock does.
fn check_end(
    check: &Check<'_>,
    arrivals: &Arrivals,
    lengths: &Lengths,
    requests: Option<u64>,
    arrivals_span: &Span,
    span: &Span,
) -> Result<(), ScenarioError> {
    let ends_itself = matches!(arrivals, Arrivals::Trace(_)) || matches!(lengths, Lengths::Trace { repeat: false, .. });
    let rescaled = matches!(arrivals, Arrivals::Gamma { spread: Spread::Rescaled, .. });
    let Some(requests) = requests else {
        let problem = match (ends_itself, rescaled) {
            (true, false) => return Ok(()),
            (true, true) => "requests is missing: arrivals are rescaled over a known number of them",
            (false, _) => "requests is missing: nothing else ends this traffic",
        };
        return Err(check.reject(span, problem, "add requests = 10000, or as many as you need"));
    };
    let Some(rate) = arrivals.mean_rate() else { return Ok(()) };
    if requests as f64 / rate > SPAN_S_MAX as f64 {
        let problem = format!("{requests} requests at {rate} a second take more than {SPAN_S_MAX} seconds");
        return Err(check.reject(arrivals_span, problem, "raise the rate or lower requests"));
    }
    Ok(())
}

fn arrivals(check: &mut Check<'_>, file: &ArrivalsFile, base_dir: &Path) -> Result<Arrivals, ScenarioError> {
    Ok(match file {
        ArrivalsFile::Poisson(file) => Arrivals::Poisson { rate: rate(check, &file.rate)? },
        ArrivalsFile::Constant(file) => Arrivals::Constant { rate: rate(check, &file.rate)? },
        ArrivalsFile::Gamma(file) => Arrivals::Gamma {
            rate: rate(check, &file.rate)?,
            burstiness: burstiness(check, &file.burstiness)?,
            spread: if file.rescale.unwrap_or(true) { Spread::Rescaled } else { Spread::AsDrawn },
        },
        ArrivalsFile::OnOff(file) => {
            let optional = |value: &Real| if *value.get_ref() == 0.0 { Ok(0.0) } else { rate(check, value) };
            let rate_on = optional(&file.rate_on)?;
            let rate_off = file.rate_off.as_ref().map(optional).transpose()?.unwrap_or(0.0);
            if rate_on == 0.0 && rate_off == 0.0 {
                let help = "give rate_on or rate_off a value above zero";
                return Err(check.reject(&file.rate_on.span(), "both rates are zero: nothing ever arrives", help));
            }
            Arrivals::OnOff { on: check.duration(&file.on)?, off: check.duration(&file.off)?, rate_on, rate_off }
        }
        ArrivalsFile::ClosedLoop(file) => {
            Arrivals::ClosedLoop { concurrency: check.whole32(&file.concurrency, 1, SEQUENCES_MAX)? }
        }
        ArrivalsFile::Trace(file) => Arrivals::Trace(trace(check, file, Wanted::ARRIVALS, base_dir)?),
    })
}

fn rate(check: &Check<'_>, value: &Real) -> Result<f64, ScenarioError> {
    let number = *value.get_ref();
    if (RATE_MIN..=RATE_MAX).contains(&number) {
        return Ok(number);
    }
    let problem = format!("expected {RATE_MIN} to {RATE_MAX} requests per second, found {number}");
    let help = if number == f64::INFINITY {
        "to send everything at once, use [traffic.arrivals.closed_loop] with concurrency as large as requests"
            .to_owned()
    } else {
        range_help(number, RATE_MIN)
    };
    Err(check.reject(&value.span(), problem, help))
}

fn burstiness(check: &Check<'_>, value: &Real) -> Result<f64, ScenarioError> {
    let number = *value.get_ref();
    if (BURSTINESS.0..=BURSTINESS.1).contains(&number) {
        return Ok(number);
    }
    let problem = format!("expected a number from {} to {}, found {number}", BURSTINESS.0, BURSTINESS.1);
    let help =
        "1 is Poisson-like, below 1 bursts, above 1 is more even; for equal gaps use [traffic.arrivals.constant]";
    Err(check.reject(&value.span(), problem, help))
}

fn lengths(
    check: &mut Check<'_>,
    file: &Spanned<LengthsFile>,
    max_model_len: u32,
    base_dir: &Path,
) -> Result<Lengths, ScenarioError> {
    match file.get_ref() {
        LengthsFile::Fixed(pair) => {
            let prompt = tokens(check, &pair.prompt)?;
            refuse_long_prompts(check, prompt, max_model_len, &pair.prompt.span())?;
            let output_tokens = tokens(check, &pair.output)?;
            warn_about_long_requests(check, (prompt, output_tokens), max_model_len, &pair.output.span());
            Ok(Lengths::Fixed(LengthPair { prompt_tokens: prompt, output_tokens }))
        }
        LengthsFile::Uniform(UniformFile { prompt, output }) => {
            let (prompt_clip, output_clip) = (range(check, prompt)?, range(check, output)?);
            refuse_long_prompts(check, prompt_clip.min, max_model_len, &prompt.span())?;
            warn_about_long_requests(check, (prompt_clip.max, output_clip.max), max_model_len, &prompt.span());
            Ok(Lengths::Uniform { prompt: prompt_clip, output: output_clip })
        }
        LengthsFile::Lognormal(pair) => {
            let (prompt, output) = (log_normal(check, &pair.prompt)?, log_normal(check, &pair.output)?);
            refuse_long_prompts(check, prompt.clip.min, max_model_len, &pair.prompt.span())?;
            let longest = (prompt.clip.max, output.clip.max);
            warn_about_long_requests(check, longest, max_model_len, &pair.prompt.span());
            Ok(Lengths::LogNormal { prompt, output })
        }
        LengthsFile::Histogram(rows) => histogram(check, rows, max_model_len, &file.span()),
        LengthsFile::Trace(trace_file) => {
            let source = trace(check, trace_file, Wanted::LENGTHS, base_dir)?;
            let repeat = trace_file.repeat.as_ref().is_some_and(|repeat| *repeat.get_ref());
            Ok(Lengths::Trace { source, repeat })
        }
    }
}

fn tokens(check: &Check<'_>, value: &Whole) -> Result<u32, ScenarioError> {
    check.whole32(value, 1, REQUEST_TOKENS_MAX)
}

/// Traffic of which the server refuses every request is a mistake.
fn refuse_long_prompts(check: &Check<'_>, shortest: u32, max_model_len: u32, span: &Span) -> Result<(), ScenarioError> {
    if refusal::fits(shortest, max_model_len).is_ok() {
        return Ok(());
    }
    let problem =
        format!("prompts of {shortest} tokens leave no room for an output within max_model_len ({max_model_len})");
    Err(check.reject(span, problem, "the server would refuse every request: shorten prompts or raise max_model_len"))
}

fn warn_about_long_requests(check: &mut Check<'_>, longest: (u32, u32), max_model_len: u32, span: &Span) {
    let (prompt, output) = longest;
    if refusal::fits(prompt, max_model_len).is_err() {
        let problem = format!(
            "prompts of up to {prompt} tokens leave no room for an output within max_model_len ({max_model_len}); the \
             server refuses those"
        );
        check.warn(span, problem);
    } else if prompt + output > max_model_len {
        let problem = format!(
            "prompt and output of up to {} tokens are longer than max_model_len ({max_model_len}); outputs are cut there",
            prompt + output
        );
        check.warn(span, problem);
    }
}

fn range(check: &Check<'_>, value: &Spanned<[Whole; 2]>) -> Result<Clip, ScenarioError> {
    let [min, max] = value.get_ref();
    let clip = Clip { min: tokens(check, min)?, max: tokens(check, max)? };
    if clip.min > clip.max {
        let problem = format!("the range runs from {} down to {}", clip.min, clip.max);
        return Err(check.reject(&value.span(), problem, "write the shortest length first"));
    }
    Ok(clip)
}

fn log_normal(check: &Check<'_>, value: &Spanned<LogNormalLengthFile>) -> Result<LogNormalLength, ScenarioError> {
    let file = value.get_ref();
    let min = file.min.as_ref().map(|min| tokens(check, min)).transpose()?.unwrap_or(1);
    let clip = Clip { min, max: tokens(check, &file.max)? };
    if clip.min > clip.max {
        let problem = format!("min ({}) is above max ({})", clip.min, clip.max);
        return Err(check.reject(&file.max.span(), problem, "raise max or lower min"));
    }
    let length = |given: &Option<Real>| {
        given.as_ref().map(|given| check.real(given, 1.0, f64::from(REQUEST_TOKENS_MAX))).transpose()
    };
    let (p50, p99, mean) = (length(&file.p50)?, length(&file.p99)?, length(&file.mean)?);
    let sigma = file.sigma.as_ref().map(|sigma| check.real(sigma, 0.0, SIGMA_MAX)).transpose()?;
    let (mu, sigma) = match (p50, p99, mean, sigma) {
        (Some(p50), None, None, Some(sigma)) => (p50.ln(), sigma),
        (Some(p50), None, Some(mean), None) => (p50.ln(), (2.0 * (mean / p50).ln()).sqrt()),
        (Some(p50), Some(p99), None, None) => (p50.ln(), (p99 / p50).ln() / Z99),
        (None, None, Some(mean), Some(sigma)) => (mean.ln() - sigma * sigma / 2.0, sigma),
        _ => {
            let help = "give p50 and one of mean, p99 and sigma, or mean and sigma";
            return Err(check.reject(&value.span(), "a lognormal length needs exactly two figures", help));
        }
    };
    if !(0.0..=SIGMA_MAX).contains(&sigma) {
        let problem = format!(
            "no lognormal length has these figures: the logarithm's deviation would be outside 0 to {SIGMA_MAX}"
        );
        return Err(check.reject(&value.span(), problem, "mean and p99 lie above p50, but not far above"));
    }
    Ok(LogNormalLength { mu, sigma, clip })
}

fn histogram(
    check: &mut Check<'_>,
    rows: &[Spanned<HistogramRowFile>],
    max_model_len: u32,
    span: &Span,
) -> Result<Lengths, ScenarioError> {
    refuse_row_count(check, rows.len(), span)?;
    let mut pairs = Vec::with_capacity(rows.len());
    for row in rows {
        let row = row.get_ref();
        let pair =
            LengthPair { prompt_tokens: tokens(check, &row.prompt)?, output_tokens: tokens(check, &row.output)? };
        pairs.push((pair, check.whole(&row.count, 1, COUNT_MAX)?));
    }
    let shortest = pairs.iter().map(|(pair, _)| pair.prompt_tokens).min().unwrap_or_default();
    refuse_long_prompts(check, shortest, max_model_len, span)?;
    if let Some((row, (pair, _))) =
        rows.iter().zip(&pairs).max_by_key(|(_, (pair, _))| pair.prompt_tokens + pair.output_tokens)
    {
        warn_about_long_requests(check, (pair.prompt_tokens, pair.output_tokens), max_model_len, &row.span());
    }
    Ok(Lengths::Histogram(pairs))
}

fn refuse_row_count(check: &Check<'_>, rows: usize, span: &Span) -> Result<(), ScenarioError> {
    if (1..=HISTOGRAM_ROWS_MAX).contains(&rows) {
        return Ok(());
    }
    let problem = format!("expected 1 to {HISTOGRAM_ROWS_MAX} rows, found {rows}");
    Err(check.reject(span, problem, "give at least one row, and add up rows of the same shape"))
}

/// Checks a trace as far as its first line.
fn trace(
    check: &mut Check<'_>,
    file: &TraceFile,
    wanted: Wanted,
    base_dir: &Path,
) -> Result<TraceSource, ScenarioError> {
    let factor = file.rate_multiplier.as_ref();
    let rate_multiplier = factor.map(|factor| check.real(factor, RATE_MULTIPLIER_MAX.recip(), RATE_MULTIPLIER_MAX));
    refuse_unused_trace_options(check, file, wanted)?;
    let source = TraceSource {
        path: base_dir.join(file.file.get_ref()),
        format: trace_format(check, file)?,
        rate_multiplier: rate_multiplier.transpose()?.unwrap_or(1.0),
        limit: file.limit.as_ref().map(|limit| check.whole(limit, 1, REQUESTS_MAX)).transpose()?,
        unsorted: file.unsorted.as_ref().map(|unsorted| *unsorted.get_ref()).unwrap_or_default(),
        bad_rows: file.bad_rows.unwrap_or_default(),
    };
    let reader = TraceReader::open(&source, wanted).map_err(|error| reject_trace(check, &error, file))?;
    if *reader.format() == TraceFormat::Mooncake && wanted.lengths {
        check.warn(&file.file.span(), "its hash_ids are ignored: the prefix cache is not simulated yet");
    }
    if let (TraceFormat::Csv(names), Some(columns), None) = (reader.format(), &file.columns, &file.time_unit)
        && wanted.arrivals
    {
        check.warn(&columns.span(), format!("time_unit is not set: `{}` is read as seconds", names.arrival));
    }
    Ok(source)
}

/// A fault of a trace's first line, pointed at the name of a column that it lacks where the scenario gives one.
fn reject_trace(check: &Check<'_>, error: &TrafficError, file: &TraceFile) -> ScenarioError {
    let span = match (error, &file.columns) {
        (TrafficError::Column { column, .. }, Some(columns)) => {
            let ColumnsFile { arrival, prompt, output } = columns.get_ref();
            let mut names = [arrival, prompt, output].into_iter().flatten();
            names.find(|name| name.get_ref() == column).map_or_else(|| columns.span(), Spanned::span)
        }
        _ => file.file.span(),
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let help = miette::Diagnostic::help(error).map(|help| help.to_string()).unwrap_or_default();
    check.reject(&span, format!("{error}{cause}"), help)
}

fn refuse_unused_trace_options(check: &Check<'_>, file: &TraceFile, wanted: Wanted) -> Result<(), ScenarioError> {
    let refuse = |span: Span| {
        let problem = "only arrival times use this, and here the trace gives lengths";
        Err(check.reject(&span, problem, "leave it out"))
    };
    if !wanted.arrivals {
        if let Some(factor) = &file.rate_multiplier {
            return refuse(factor.span());
        }
        if let Some(unsorted) = &file.unsorted {
            return refuse(unsorted.span());
        }
    } else if let Some(repeat) = &file.repeat {
        let problem = "only [traffic.lengths.trace] can repeat: arrival times end with the trace";
        return Err(check.reject(&repeat.span(), problem, "leave it out"));
    }
    Ok(())
}

fn trace_format(check: &Check<'_>, file: &TraceFile) -> Result<Option<TraceFormat>, ScenarioError> {
    let format = file.format.as_ref().map(|format| *format.get_ref());
    let named = match format {
        Some(TraceFormatFile::Azure) => Some(TraceFormat::Azure),
        Some(TraceFormatFile::Vidur) => Some(TraceFormat::Vidur),
        Some(TraceFormatFile::Mooncake) => Some(TraceFormat::Mooncake),
        Some(TraceFormatFile::Csv) | None => None,
    };
    let Some(columns) = &file.columns else {
        return match (&file.format, &file.time_unit) {
            (Some(format), _) if named.is_none() => {
                let help = "add columns = { arrival = \"…\", prompt = \"…\", output = \"…\" }";
                Err(check.reject(&format.span(), "the names of its columns are not given", help))
            }
            (_, Some(unit)) => {
                let help = "leave it out, or name the columns as well";
                Err(check.reject(&unit.span(), "this format has its own unit of time", help))
            }
            _ => Ok(named),
        };
    };
    if let Some(format) = file.format.as_ref().filter(|_| named.is_some()) {
        let help = "leave `columns` out, or set format = \"csv\"";
        return Err(check.reject(&format.span(), "this format has its own column names", help));
    }
    let ColumnsFile { arrival, prompt, output } = columns.get_ref();
    let name = |given: &Option<Spanned<String>>, default: &str| {
        given.as_ref().map_or_else(|| default.to_owned(), |given| given.get_ref().clone())
    };
    let time_unit = match file.time_unit.as_ref().map_or(TimeUnitFile::S, |unit| *unit.get_ref()) {
        TimeUnitFile::S => Some(TimeUnit::Seconds),
        TimeUnitFile::Ms => Some(TimeUnit::Milliseconds),
        TimeUnitFile::Us => Some(TimeUnit::Microseconds),
        TimeUnitFile::Ns => Some(TimeUnit::Nanoseconds),
        TimeUnitFile::Date => None,
    };
    Ok(Some(TraceFormat::Csv(ColumnNames {
        arrival: name(arrival, "arrival"),
        prompt: name(prompt, "prompt"),
        output: name(output, "output"),
        time_unit,
    })))
}

/// The histogram of step shapes, if that is what the traffic is.
fn steps(check: &Check<'_>, file: &TrafficFile, base_dir: &Path) -> Result<Option<StepHistogram>, ScenarioError> {
    let rows_span = file.steps.as_ref().and_then(|rows| rows.first()).map(Spanned::span);
    let Some(span) = file.steps_file.as_ref().map(Spanned::span).or(rows_span) else { return Ok(None) };
    let others = [
        file.arrivals.as_ref().map(Spanned::span),
        file.lengths.as_ref().map(Spanned::span),
        file.requests.as_ref().map(Spanned::span),
    ];
    if let Some(other) = others.into_iter().flatten().next() {
        let help = "keep either step shapes (for `sim price`) or arrivals and lengths (for `sim run`)";
        return Err(check.reject(&other, "this traffic is a histogram of step shapes already", help));
    }
    match (&file.steps, &file.steps_file) {
        (Some(_), Some(written)) => {
            Err(check.reject(&written.span(), "[[traffic.steps]] is given as well", "keep one of the two"))
        }
        (Some(rows), None) => step_rows(check, rows, &span).map(Some),
        (None, _) => {
            let written = file.steps_file.as_ref().expect("one of the two is there");
            let label = written.get_ref();
            let opened = File::open(base_dir.join(label))
                .map_err(|error| check.reject(&span, format!("cannot open {label}: {error}"), PATH_HELP))?;
            let histogram = StepHistogram::read_csv(opened)
                .map_err(|problem| check.reject(&span, format!("{label}: {problem}"), STEPS_FILE_HELP))?;
            Ok(Some(histogram))
        }
    }
}

/// What to do about a file that cannot be opened.
const PATH_HELP: &str = "the path is taken relative to the folder of the scenario; check its spelling and permissions";

/// What a histogram of steps on file looks like.
const STEPS_FILE_HELP: &str = "the file is a CSV with the columns tokens,requests,query_len,count";

fn step_rows(check: &Check<'_>, rows: &[Spanned<StepFile>], span: &Span) -> Result<StepHistogram, ScenarioError> {
    refuse_row_count(check, rows.len(), span)?;
    let mut checked = Vec::with_capacity(rows.len());
    for row in rows {
        let StepFile { tokens, requests, query_len, count } = row.get_ref();
        // What is negative is refused as zero is, under the same key.
        let number = |value: &Whole| u64::try_from(*value.get_ref()).unwrap_or(0);
        let built = StepRow::new(number(tokens), number(requests), query_len.as_ref().map(number), number(count));
        checked.push(built.map_err(|(column, problem)| {
            let place = match column {
                "tokens" => tokens.span(),
                "requests" => requests.span(),
                "count" => count.span(),
                _ => query_len.as_ref().map_or_else(|| row.span(), Spanned::span),
            };
            check.reject(&place, problem, "a step has at least one request, each of at least one token")
        })?);
    }
    StepHistogram::new(checked).map_err(|repeated| {
        let place = repeated.map_or_else(|| span.clone(), |row| rows[row].get_ref().tokens.span());
        check.reject(&place, "this shape has a row already", "add the counts up")
    })
}

fn warn_about_impossible_steps(check: &mut Check<'_>, histogram: &StepHistogram, limits: &Limits, span: &Span) {
    let Limits { requests, step_tokens, .. } = *limits;
    let is_impossible = |row: &&StepRow| row.tokens > step_tokens.value || row.requests > requests.value;
    if let Some(row) = histogram.rows.iter().find(is_impossible) {
        let problem = format!(
            "a step of {} tokens and {} requests is beyond {} ({}) or {} ({}): this server never runs it",
            row.tokens, row.requests, step_tokens.flag, step_tokens.value, requests.flag, requests.value
        );
        check.warn(span, problem);
    }
}
