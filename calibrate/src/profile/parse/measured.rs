//! What a profile states about its measurement.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::super::file::{
    Column, Count, HeldOutFile, IntervalFile, KeptWarningFile, KnotIntervalsFile, MeasuredFile, MeasurementFile,
    NotMeasuredFile, Number, PaddingCostFile, ProtocolFile, RungsFile, Text,
};
use super::super::{
    Figure, HeldOut, Interval, KeptWarning, Kind, Measured, Measurement, NotMeasured, PaddingCost, Protocol, Rungs,
};
use super::{COUNT, Figures, KNOT, MOST_VALUES, Origin, Parsed, Rule, SECONDS};

/// Any figure of a profile; its own rule has been applied to the figure itself.
const FIGURE: Rule = Rule::positive((1_u64 << 50) as f64, "a number in the figure's unit").or_zero();
const SLOPE: Rule = Rule::positive(1e9, "microseconds a row").or_less();
const RATIO: Rule = Rule::positive(1e3, "a ratio");
const PERCENT: Rule = Rule::positive(1e6, "percent").or_zero();
const MEGAHERTZ: Rule = Rule::positive(1e5, "MHz");
const RANKS: Rule = Rule::positive(1024.0, "a count");

/// Groups.
impl Origin<'_> {
    pub(super) fn measured(
        self,
        table: &str,
        figures: &dyn Figures,
        kind: Kind,
        file: &MeasuredFile,
    ) -> Parsed<Measured> {
        let table = format!("{table}.measured");
        if !matches!(kind, Kind::Measured | Kind::Double) {
            let problem = format!("a measurement of {kind} figures: only measured figures have one");
            return Err(self.missing(&table, &problem, "remove the table, or correct the kind"));
        }
        let figures = figures.figures();
        self.known_figures(&table, "intervals", &figures, &file.intervals)?;
        self.known_figures(&table, "knots", &figures, &file.knots)?;
        let is_over_rows = figures.iter().any(|figure| figure.name == "us" && !figure.knots.is_empty());
        let padding = match &file.padding {
            None => None,
            Some(file) if is_over_rows => Some(self.padding(&format!("{table}.padding"), file)?),
            Some(file) => {
                let problem = "a cost of padding: only a table over rows has one";
                return Err(self.fault(format!("{table}.padding"), file.span(), problem, "remove the table"));
            }
        };
        let mut intervals = Vec::new();
        for Figure { name, values, .. } in figures {
            match (file.intervals.get(name), file.knots.get(name)) {
                (Some(interval), None) => {
                    let key = format!("{table}.intervals.{name}");
                    let [value] = &values[..] else {
                        let problem = format!("one interval for {} knots", values.len());
                        return Err(self.fault(
                            key,
                            interval.span(),
                            problem,
                            "give the intervals of a table under knots",
                        ));
                    };
                    intervals.push((name, vec![self.interval(&key, *value, interval)?]));
                }
                (None, Some(file)) => {
                    intervals.push((name, self.knot_intervals(&format!("{table}.knots.{name}"), &values, file)?));
                }
                (None, None) => {}
                (Some(interval), Some(_)) => {
                    let problem = format!("both an interval and knots of {name}");
                    return Err(self.fault(&*table, interval.span(), problem, "keep one of them"));
                }
            }
        }
        Ok(Measured {
            protocol: file
                .protocol
                .as_ref()
                .map(|file| self.protocol(&format!("{table}.protocol"), file))
                .transpose()?,
            held_out: file
                .held_out
                .as_ref()
                .map(|file| self.held_out(&format!("{table}.held_out"), file))
                .transpose()?,
            padding,
            intervals,
        })
    }

    fn known_figures<T>(
        self,
        table: &str,
        part: &str,
        figures: &[Figure],
        stated: &BTreeMap<String, Spanned<T>>,
    ) -> Parsed<()> {
        let unknown = stated.iter().find(|(key, _)| figures.iter().all(|figure| figure.name != key.as_str()));
        let Some((key, value)) = unknown else { return Ok(()) };
        let names: Vec<_> = figures.iter().map(|figure| figure.name).collect();
        let problem = format!("not a figure of this group: expected one of {}", names.join(", "));
        Err(self.fault(format!("{table}.{part}.{key}"), value.span(), problem, "correct the name, or remove it"))
    }

    fn protocol(self, table: &str, file: &ProtocolFile) -> Parsed<Protocol> {
        let count = |key: &str, value: &Count, rule: Rule| {
            self.count(&format!("{table}.{key}"), value, rule).map(|count| count as u32)
        };
        Ok(Protocol {
            rounds: count("rounds", &file.rounds, COUNT)?,
            warm_up_visits: count("warm_up_visits", &file.warm_up_visits, KNOT.or_zero())?,
            outliers: count("outliers", &file.outliers, KNOT.or_zero())?,
            drift_ratio: self.number(&format!("{table}.drift_ratio"), &file.drift_ratio, RATIO)?,
            stopped_by: self.words(&format!("{table}.stopped_by"), &file.stopped_by)?,
        })
    }

    fn held_out(self, table: &str, file: &HeldOutFile) -> Parsed<HeldOut> {
        Ok(HeldOut {
            sizes: self.count(&format!("{table}.sizes"), &file.sizes, COUNT)? as u32,
            median_percent: self.number(&format!("{table}.median_percent"), &file.median_percent, PERCENT)?,
            worst_percent: self.number(&format!("{table}.worst_percent"), &file.worst_percent, PERCENT)?,
            worst_at: self.number(&format!("{table}.worst_at"), &file.worst_at, KNOT)?,
        })
    }

    fn padding(self, table: &str, file: &Spanned<PaddingCostFile>) -> Parsed<PaddingCost> {
        let PaddingCostFile { us_per_row, low, high, samples, to_rows } = file.get_ref();
        let slope = |key: &str, value: &Number| self.number(&format!("{table}.{key}"), value, SLOPE);
        let cost = PaddingCost {
            us_per_row: slope("us_per_row", us_per_row)?,
            low: slope("low", low)?,
            high: slope("high", high)?,
            samples: self.count(&format!("{table}.samples"), samples, KNOT)? as u32,
            to_rows: self.number(&format!("{table}.to_rows"), to_rows, KNOT)?,
        };
        let interval = Interval { low: cost.low, high: cost.high, samples: cost.samples };
        self.holds(table, cost.us_per_row, interval, file.span()).map(|_| cost)
    }

    fn interval(self, key: &str, value: f64, interval: &Spanned<IntervalFile>) -> Parsed<Interval> {
        let file = interval.get_ref();
        let found = self.ends(key, (&file.low, &file.high, &file.samples))?;
        self.holds(key, value, found, interval.span())
    }

    fn knot_intervals(self, key: &str, values: &[f64], file: &Spanned<KnotIntervalsFile>) -> Parsed<Vec<Interval>> {
        let KnotIntervalsFile { low, high, samples } = file.get_ref();
        let columns = [
            ("low", low.get_ref().len(), low.span()),
            ("high", high.get_ref().len(), high.span()),
            ("samples", samples.get_ref().len(), samples.span()),
        ];
        for (name, length, span) in columns {
            if length != values.len() {
                let problem = format!("{length} values for {} knots", values.len());
                return Err(self.fault(format!("{key}.{name}"), span, problem, "give one value for each knot"));
            }
        }
        let columns = low.get_ref().iter().zip(high.get_ref()).zip(samples.get_ref());
        let knot = |(index, ((low, high), samples)): (usize, ((&Number, &Number), &Count))| {
            let key = format!("{key}[{index}]");
            let found = self.ends(&key, (low, high, samples))?;
            self.holds(&key, values[index], found, low.span())
        };
        columns.enumerate().map(knot).collect()
    }

    fn ends(self, key: &str, (low, high, samples): (&Number, &Number, &Count)) -> Parsed<Interval> {
        Ok(Interval {
            low: self.number(&format!("{key}.low"), low, FIGURE)?,
            high: self.number(&format!("{key}.high"), high, FIGURE)?,
            samples: self.count(&format!("{key}.samples"), samples, KNOT)? as u32,
        })
    }

    fn holds(self, key: &str, value: f64, found: Interval, span: Range<usize>) -> Parsed<Interval> {
        if (found.low..=found.high).contains(&value) {
            return Ok(found);
        }
        let problem = format!("{} to {}: expected an interval that holds the figure, {value}", found.low, found.high);
        Err(self.fault(key, span, problem, "correct the figure or its interval; they are measured together"))
    }
}

/// The whole run.
impl Origin<'_> {
    pub(super) fn measurement(self, file: &MeasurementFile) -> Parsed<Measurement> {
        let key = |name: &str| format!("measurement.{name}");
        let count = |name: &str, value: Option<&Count>, rule: Rule| {
            value.map(|value| self.count(&key(name), value, rule).map(|count| count as u32)).transpose()
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
            calibrate_version: self.words(&key("calibrate_version"), &file.calibrate_version)?,
            options: self.words(&key("options"), &file.options)?,
            took_s: self.number(&key("took_s"), &file.took_s, SECONDS.or_zero())?,
            cuda_version: self.optional_words(&key("cuda_version"), file.cuda_version.as_ref())?,
            compute_capability: self.optional_words(&key("compute_capability"), file.compute_capability.as_ref())?,
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

    fn date(self, key: &str, value: &Text) -> Parsed<String> {
        let date = self.words(key, value)?;
        if humantime::parse_rfc3339(&date).is_err() {
            let problem = format!("{date}: expected a date and a time in UTC, such as 2026-01-31T09:30:00Z");
            return Err(self.fault(key, value.span(), problem, "correct the date"));
        }
        Ok(date)
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
        let column = |name: &str, column: &Column| {
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
            let value = |(index, value)| self.number(&format!("{table}.{name}[{index}]"), value, FIGURE);
            values.iter().enumerate().map(value).collect::<Parsed<Vec<f64>>>()
        };
        Ok(Rungs {
            rows: column("rows", &file.rows)?,
            nodes: column("nodes", &file.nodes)?,
            capture_ms: column("capture_ms", &file.capture_ms)?,
            instantiate_ms: column("instantiate_ms", &file.instantiate_ms)?,
            upload_ms: column("upload_ms", &file.upload_ms)?,
            pool_growth_bytes: column("pool_growth_bytes", &file.pool_growth_bytes)?,
            first_replay_us: column("first_replay_us", &file.first_replay_us)?,
            replay_host_us: column("replay_host_us", &file.replay_host_us)?,
            replay_device_us: column("replay_device_us", &file.replay_device_us)?,
            eager_host_us: column("eager_host_us", &file.eager_host_us)?,
            eager_device_us: column("eager_device_us", &file.eager_device_us)?,
        })
    }
}
