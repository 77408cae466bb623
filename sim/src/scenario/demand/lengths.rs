//! How long requests are.

use std::path::Path;

use toml::Spanned;

use super::super::check::Check;
use super::super::file::{HistogramRowFile, LengthsFile, LogNormalLengthFile, Real, UniformFile, Whole};
use super::super::{ScenarioError, Span};
use super::refuse_row_count;
use super::trace::trace;
use crate::engine::options::Limit;
use crate::engine::refusal;
use crate::limits::{COUNT_MAX, REQUEST_TOKENS_MAX, SIGMA_MAX};
use crate::traffic::{Clip, LengthPair, Lengths, LogNormalLength, Wanted};

/// The standard normal's 99th percentile.
const Z99: f64 = 2.326_347_874_040_841;

/// Checks `[traffic.lengths]`.
pub(super) fn lengths(
    check: &mut Check<'_>,
    file: &Spanned<LengthsFile>,
    model_len: Limit,
    base_dir: &Path,
) -> Result<Lengths, ScenarioError> {
    match file.get_ref() {
        LengthsFile::Fixed(pair) => {
            let prompt = tokens(check, &pair.prompt)?;
            refuse_long_prompts(check, prompt, model_len, &pair.prompt.span())?;
            let output_tokens = tokens(check, &pair.output)?;
            warn_about_long_requests(check, (prompt, output_tokens), model_len, &pair.output.span());
            Ok(Lengths::Fixed(LengthPair { prompt_tokens: prompt, output_tokens }))
        }
        LengthsFile::Uniform(UniformFile { prompt, output }) => {
            let (prompt_clip, output_clip) = (range(check, prompt)?, range(check, output)?);
            refuse_long_prompts(check, prompt_clip.min, model_len, &prompt.span())?;
            warn_about_long_requests(check, (prompt_clip.max, output_clip.max), model_len, &prompt.span());
            Ok(Lengths::Uniform { prompt: prompt_clip, output: output_clip })
        }
        LengthsFile::Lognormal(pair) => {
            let (prompt, output) = (log_normal(check, &pair.prompt)?, log_normal(check, &pair.output)?);
            refuse_long_prompts(check, prompt.clip.min, model_len, &pair.prompt.span())?;
            let longest = (prompt.clip.max, output.clip.max);
            warn_about_long_requests(check, longest, model_len, &pair.prompt.span());
            Ok(Lengths::LogNormal { prompt, output })
        }
        LengthsFile::Histogram(rows) => histogram(check, rows, model_len, &file.span()),
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
fn refuse_long_prompts(check: &Check<'_>, shortest: u32, model_len: Limit, span: &Span) -> Result<(), ScenarioError> {
    let Limit { flag, value } = model_len;
    if refusal::fits(shortest, value).is_ok() {
        return Ok(());
    }
    let problem = format!("prompts of {shortest} tokens leave no room for an output within {flag} ({value})");
    let help = format!("the server would refuse every request: shorten prompts or raise {flag}");
    Err(check.reject(span, problem, help))
}

fn warn_about_long_requests(check: &mut Check<'_>, longest: (u32, u32), model_len: Limit, span: &Span) {
    let (prompt, output) = longest;
    let Limit { flag, value } = model_len;
    if refusal::fits(prompt, value).is_err() {
        let problem = format!(
            "prompts of up to {prompt} tokens leave no room for an output within {flag} ({value}); the server refuses \
             those"
        );
        check.warn(span, problem);
    } else if prompt + output > value {
        let problem = format!(
            "prompt and output of up to {} tokens are longer than {flag} ({value}); outputs are cut there",
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
    model_len: Limit,
    span: &Span,
) -> Result<Lengths, ScenarioError> {
    refuse_row_count(check, rows.len(), span, "give at least one row, and add up rows of the same lengths")?;
    let mut pairs = Vec::with_capacity(rows.len());
    for row in rows {
        let row = row.get_ref();
        let pair =
            LengthPair { prompt_tokens: tokens(check, &row.prompt)?, output_tokens: tokens(check, &row.output)? };
        pairs.push((pair, check.whole(&row.count, 1, COUNT_MAX)?));
    }
    let shortest = pairs.iter().map(|(pair, _)| pair.prompt_tokens).min().unwrap_or_default();
    refuse_long_prompts(check, shortest, model_len, span)?;
    if let Some((row, (pair, _))) =
        rows.iter().zip(&pairs).max_by_key(|(_, (pair, _))| pair.prompt_tokens + pair.output_tokens)
    {
        warn_about_long_requests(check, (pair.prompt_tokens, pair.output_tokens), model_len, &row.span());
    }
    Ok(Lengths::Histogram(pairs))
}
