//! When and how a whole profile was measured.

use std::time::SystemTime;

use super::super::date::{Odd, oddity};
use super::super::file::{Column, Count, KeptWarningFile, MeasurementFile, NotMeasuredFile, RungsFile, Text};
use super::super::{KeptWarning, Measurement, NotMeasured, Rungs};
use super::rule::{COUNT, GROWTH, MEGAHERTZ, MILLISECONDS, NODES, RANKS, ROWS, Rule, SECONDS, STEP_US};
use super::{MOST_VALUES, Origin, Parsed};

impl Origin<'_> {
    pub(super) fn measurement(self, file: &MeasurementFile) -> Parsed<Measurement> {
        let key = |name: &str| format!("measurement.{name}");
        let count = |name: &str, value: Option<&Count>, rule: Rule| {
            value.map(|value| self.count(&key(name), value, rule).map(|count| count as u32)).transpose()
        };
        let version = |name: &str, value: Option<&Text>, example: &str| {
            value.map(|value| self.version(&key(name), value, 2, example)).transpose()
        };
        let warning = |(index, file): (usize, &KeptWarningFile)| {
            let key = |name: &str| format!("measurement.warning[{index}].{name}");
            Ok(KeptWarning {
                code: self.words(&key("code"), &file.code)?,
                what: self.words(&key("what"), &file.what)?,
                advice: self.optional_words(&key("advice"), file.advice.as_ref())?,
            })
        };
        let left_out = |(index, file): (usize, &NotMeasuredFile)| {
            let key = |name: &str| format!("measurement.not_measured[{index}].{name}");
            Ok(NotMeasured { what: self.words(&key("what"), &file.what)?, why: self.words(&key("why"), &file.why)? })
        };
        let rungs = |name: &str, file: Option<&RungsFile>| file.map(|file| self.rungs(&key(name), file)).transpose();
        Ok(Measurement {
            date: self.date(&key("date"), &file.date)?,
            calibrate_version: self.version(&key("calibrate_version"), &file.calibrate_version, 3, "0.1.0")?,
            options: self.words(&key("options"), &file.options)?,
            took_s: self.number(&key("took_s"), &file.took_s, SECONDS.or_zero())?,
            cuda_version: version("cuda_version", file.cuda_version.as_ref(), "12.9")?,
            compute_capability: version("compute_capability", file.compute_capability.as_ref(), "9.0")?,
            gemm_backend: self.words(&key("gemm_backend"), &file.gemm_backend)?,
            tensor_parallel: count("tensor_parallel", file.tensor_parallel.as_ref(), RANKS)?.unwrap_or(1),
            weight_layers: count("weight_layers", file.weight_layers.as_ref(), COUNT)?,
            sm_clock_mhz: file.sm_clock_mhz.as_ref().map(|ends| self.clocks(&key("sm_clock_mhz"), ends)).transpose()?,
            warnings: file.warning.iter().enumerate().map(warning).collect::<Parsed<_>>()?,
            not_measured: file.not_measured.iter().enumerate().map(left_out).collect::<Parsed<_>>()?,
            full: rungs("full", file.full.as_ref())?,
            piecewise: rungs("piecewise", file.piecewise.as_ref())?,
        })
    }

    pub(super) fn date(self, key: &str, value: &Text) -> Parsed<String> {
        let date = self.words(key, value)?;
        let now = SystemTime::now();
        let (expected, help) = match oddity(&date, now) {
            None => return Ok(date),
            Some(Odd::Form) => {
                ("expected a date and a time in UTC, such as 2026-01-31T09:30:00Z".to_owned(), "correct the date")
            }
            Some(Odd::Early) => (
                "expected a moment in 2024 or later: calibrate is not older".to_owned(),
                "correct the date; the clock of the machine that was measured may not have been set",
            ),
            Some(Odd::Late) => (
                format!("expected a moment that has passed: here it is {}", humantime::format_rfc3339_seconds(now)),
                "correct the date, or the clock of this machine",
            ),
        };
        Err(self.fault(key, value.span(), format!("{date}: {expected}"), help))
    }

    /// Numbers with dots between: so many, and whatever else stands behind a hyphen or a plus.
    fn version(self, key: &str, value: &Text, parts: usize, example: &str) -> Parsed<String> {
        let found = self.words(key, value)?;
        let numbers: Vec<&str> = found.split(['-', '+']).next().unwrap_or_default().split('.').collect();
        let is_number = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if numbers.len() == parts && numbers.iter().all(is_number) {
            return Ok(found);
        }
        let problem = format!("{found}: expected numbers with dots between, such as {example}");
        Err(self.fault(key, value.span(), problem, "correct the version"))
    }

    fn clocks(self, key: &str, ends: &Column) -> Parsed<[f64; 2]> {
        let refuse = |problem: String| Err(self.fault(key, ends.span(), problem, "write [lowest, highest]"));
        let [low, high] = &ends.get_ref()[..] else {
            return refuse(format!("{} values: expected the lowest and the highest clock", ends.get_ref().len()));
        };
        let low = self.number(&format!("{key}[0]"), low, MEGAHERTZ)?;
        let high = self.number(&format!("{key}[1]"), high, MEGAHERTZ)?;
        if high < low {
            return refuse(format!("[{low}, {high}]: the highest lies below the lowest"));
        }
        Ok([low, high])
    }

    fn rungs(self, table: &str, file: &RungsFile) -> Parsed<Rungs> {
        let rows = file.rows.get_ref();
        if rows.is_empty() || rows.len() > MOST_VALUES {
            let problem = format!("{} rungs: expected 1 to {MOST_VALUES}", rows.len());
            return Err(self.fault(
                format!("{table}.rows"),
                file.rows.span(),
                problem,
                "remove the table if it is empty",
            ));
        }
        for (index, pair) in rows.windows(2).enumerate() {
            let (before, after) = (pair[0].get_ref(), pair[1].get_ref());
            if after <= before {
                let problem = format!("{after} after {before}: rungs must rise strictly");
                let key = format!("{table}.rows[{}]", index + 1);
                return Err(self.fault(key, pair[1].span(), problem, "sort the rungs, all columns alike"));
            }
        }
        let column = |name: &str, column: &Column, rule: Rule| {
            let values = column.get_ref();
            if values.len() != rows.len() {
                let problem = format!("{} values for {} rungs", values.len(), rows.len());
                return Err(self.fault(
                    format!("{table}.{name}"),
                    column.span(),
                    problem,
                    "give one value for each rung",
                ));
            }
            let value = |(index, value)| self.number(&format!("{table}.{name}[{index}]"), value, rule);
            values.iter().enumerate().map(value).collect::<Parsed<Vec<f64>>>()
        };
        Ok(Rungs {
            rows: column("rows", &file.rows, ROWS)?,
            nodes: column("nodes", &file.nodes, NODES)?,
            capture_ms: column("capture_ms", &file.capture_ms, MILLISECONDS)?,
            instantiate_ms: column("instantiate_ms", &file.instantiate_ms, MILLISECONDS)?,
            upload_ms: column("upload_ms", &file.upload_ms, MILLISECONDS)?,
            pool_growth_bytes: column("pool_growth_bytes", &file.pool_growth_bytes, GROWTH)?,
            first_replay_us: column("first_replay_us", &file.first_replay_us, STEP_US)?,
            replay_host_us: column("replay_host_us", &file.replay_host_us, STEP_US)?,
            replay_device_us: column("replay_device_us", &file.replay_device_us, STEP_US)?,
            eager_host_us: column("eager_host_us", &file.eager_host_us, STEP_US)?,
            eager_device_us: column("eager_device_us", &file.eager_device_us, STEP_US)?,
        })
    }
}
