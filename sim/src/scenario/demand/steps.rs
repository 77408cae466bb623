//! Histograms of step shapes.

use std::fs::File;
use std::path::Path;

use toml::Spanned;

use super::super::check::Check;
use super::super::file::{StepFile, TrafficFile, Whole};
use super::super::{ScenarioError, Span};
use super::refuse_row_count;
use crate::engine::options::Limits;
use crate::limits::{IMAGES_MAX, STEP_TOKENS_MAX};
use crate::traffic::{StepHistogram, StepRow};

/// The histogram of step shapes, if that is what the traffic is.
pub(super) fn steps(
    check: &Check<'_>,
    file: &TrafficFile,
    base_dir: &Path,
) -> Result<Option<StepHistogram>, ScenarioError> {
    let rows_span = file.steps.as_ref().and_then(|rows| rows.first()).map(Spanned::span);
    let Some(span) = file.steps_file.as_ref().map(Spanned::span).or(rows_span) else { return Ok(None) };
    let others = [
        file.arrivals.as_ref().map(Spanned::span),
        file.lengths.as_ref().map(Spanned::span),
        file.requests.as_ref().map(Spanned::span),
        file.priorities.as_ref().and_then(|rows| rows.first()).map(Spanned::span),
        file.adapters.as_ref().map(Spanned::span),
        file.prefixes.as_ref().and_then(|groups| groups.first()).map(Spanned::span),
        file.acceptance.as_ref().map(Spanned::span),
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
    refuse_row_count(check, rows.len(), span, "give at least one row, and add up rows of the same shape")?;
    let mut checked = Vec::with_capacity(rows.len());
    for row in rows {
        let StepFile { tokens, requests, query_len, count, images } = row.get_ref();
        // What is negative is refused as zero is, under the same key.
        let number = |value: &Whole| u64::try_from(*value.get_ref()).unwrap_or(0);
        let built = StepRow::new(number(tokens), number(requests), query_len.as_ref().map(number), number(count));
        let built = built.map_err(|(column, problem)| {
            let place = match column {
                "tokens" => tokens.span(),
                "requests" => requests.span(),
                "count" => count.span(),
                _ => query_len.as_ref().map_or_else(|| row.span(), Spanned::span),
            };
            let help = match column {
                "query_len" => "query_len is the longest query of the step, in tokens; left out, all are equally long",
                "count" => "count is how often the step came",
                _ => "a step has at least one request, each of at least one token",
            };
            check.reject(&place, problem, help)
        })?;
        checked.push(built.with_images(step_images(check, images.as_ref())?));
    }
    StepHistogram::new(checked).map_err(|repeated| {
        let place = repeated.map_or_else(|| span.clone(), |row| rows[row].get_ref().tokens.span());
        check.reject(&place, "this shape has a row already", "add the counts up")
    })
}

/// The images of a row, in order.
fn step_images(check: &Check<'_>, images: Option<&Spanned<Vec<Whole>>>) -> Result<Vec<u32>, ScenarioError> {
    let Some(images) = images else { return Ok(Vec::new()) };
    let written = images.get_ref();
    if written.len() > IMAGES_MAX {
        let problem = format!("expected at most {IMAGES_MAX} images a step, found {}", written.len());
        return Err(check.reject(&images.span(), problem, "spread them over several steps"));
    }
    written.iter().map(|tokens| check.whole32(tokens, 1, STEP_TOKENS_MAX)).collect()
}

/// Warns of steps that no scheduler of this server hands out.
pub(super) fn warn_about_impossible_steps(
    check: &mut Check<'_>,
    histogram: &StepHistogram,
    limits: &Limits,
    span: &Span,
) {
    if let Some(problem) = histogram.impossible_step(limits) {
        check.warn(span, problem);
    }
}
