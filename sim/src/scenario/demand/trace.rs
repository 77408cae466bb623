//! Recorded traces.

use std::path::Path;

use toml::Spanned;

use super::super::check::Check;
use super::super::file::{ColumnsFile, TimeUnitFile, TraceFile, TraceFormatFile};
use super::super::{ScenarioError, Span};
use crate::limits::{RATE_MULTIPLIER_MAX, REQUESTS_MAX};
use crate::traffic::{
    ColumnNames, LabelColumns, TimeUnit, TraceFormat, TraceReader, TraceSource, TrafficError, Wanted,
};

/// Checks a trace as far as its first line.
pub(super) fn trace(
    check: &mut Check<'_>,
    file: &TraceFile,
    wanted: Wanted,
    base_dir: &Path,
) -> Result<TraceSource, ScenarioError> {
    let factor = file.rate_multiplier.as_ref();
    let rate_multiplier = factor.map(|factor| check.real(factor, RATE_MULTIPLIER_MAX.recip(), RATE_MULTIPLIER_MAX));
    refuse_unused_trace_options(check, file, wanted)?;
    let mut source = TraceSource {
        path: base_dir.join(file.file.get_ref()),
        format: trace_format(check, file)?,
        rate_multiplier: rate_multiplier.transpose()?.unwrap_or(1.0),
        limit: file.limit.as_ref().map(|limit| check.whole(limit, 1, REQUESTS_MAX)).transpose()?,
        unsorted: file.unsorted.as_ref().map(|unsorted| *unsorted.get_ref()).unwrap_or_default(),
        bad_rows: file.bad_rows.unwrap_or_default(),
    };
    let reader = TraceReader::open(&source, wanted).map_err(|error| reject_trace(check, &error, file))?;
    let repeats = file.repeat.as_ref().is_some_and(|repeat| *repeat.get_ref());
    if repeats && reader.format().brings().prefixes {
        let problem = "from the second time on every prompt of this trace is one that was sent before: the prefix cache \
                       may hold all of it";
        check.warn(&file.file.span(), problem);
    }
    if let (TraceFormat::Csv(names), Some(columns), None) = (reader.format(), &file.columns, &file.time_unit)
        && wanted.arrivals
    {
        check.warn(&columns.span(), format!("time_unit is not set: `{}` is read as seconds", names.arrival));
    }
    source.format = Some(reader.format().clone());
    Ok(source)
}

/// A fault of a trace's first line, pointed at the name of a column that it lacks where the scenario gives one.
fn reject_trace(check: &Check<'_>, error: &TrafficError, file: &TraceFile) -> ScenarioError {
    let span = match (error, &file.columns) {
        (TrafficError::Column { column, .. }, Some(columns)) => {
            let ColumnsFile { arrival, prompt, output, priority, adapter, prefix, prefix_tokens } = columns.get_ref();
            let all = [arrival, prompt, output, priority, adapter, prefix, prefix_tokens];
            let mut names = all.into_iter().flatten();
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
    let of_rows = file.columns.as_ref().filter(|_| !wanted.lengths).and_then(|columns| {
        let ColumnsFile { priority, adapter, prefix, prefix_tokens, .. } = columns.get_ref();
        [priority, adapter, prefix, prefix_tokens].into_iter().flatten().next()
    });
    if let Some(column) = of_rows {
        let problem = "of this trace only the arrival times are used, because [traffic.lengths] is given";
        let help = "leave it out, or leave [traffic.lengths] out";
        return Err(check.reject(&column.span(), problem, help));
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
    let ColumnsFile { arrival, prompt, output, .. } = columns.get_ref();
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
    Ok(Some(TraceFormat::Csv(Box::new(ColumnNames {
        arrival: name(arrival, "arrival"),
        prompt: name(prompt, "prompt"),
        output: name(output, "output"),
        time_unit,
        labels: label_columns(check, columns.get_ref())?,
    }))))
}

/// The columns of labels; a prefix needs its length.
fn label_columns(check: &Check<'_>, file: &ColumnsFile) -> Result<LabelColumns, ScenarioError> {
    let text = |name: &Option<Spanned<String>>| name.as_ref().map(|name| name.get_ref().clone());
    let prefix = match (&file.prefix, &file.prefix_tokens) {
        (None, None) => None,
        (Some(name), Some(tokens)) => Some([name.get_ref().clone(), tokens.get_ref().clone()]),
        (Some(name), None) => {
            let help = "add prefix_tokens, the column with the length of that prefix";
            return Err(check.reject(&name.span(), "how long the prefix is is not given", help));
        }
        (None, Some(tokens)) => {
            let help = "add prefix, the column with the name of that prefix";
            return Err(check.reject(&tokens.span(), "which prefix it is is not given", help));
        }
    };
    Ok(LabelColumns { priority: text(&file.priority), adapter: text(&file.adapter), prefix })
}
