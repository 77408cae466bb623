//! What a profile states about the measurement of a group.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::super::file::{
    Count, HeldOutFile, IntervalFile, KnotIntervalsFile, MeasuredFile, Number, PaddingCostFile, ProtocolFile,
};
use super::super::{Figure, HeldOut, Interval, Kind, Measured, PaddingCost, Protocol};
use super::rule::{COUNT, DRIFT, FIGURE, PERCENT, ROWS, Rule, SLOPE, VISITS};
use super::{Figures, Origin, Parsed};

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
        if !kind.is_measured() {
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
            warm_up_visits: count("warm_up_visits", &file.warm_up_visits, VISITS.or_zero())?,
            outliers: count("outliers", &file.outliers, VISITS.or_zero())?,
            drift_ratio: self.number(&format!("{table}.drift_ratio"), &file.drift_ratio, DRIFT)?,
            stopped_by: self.words(&format!("{table}.stopped_by"), &file.stopped_by)?,
        })
    }

    fn held_out(self, table: &str, file: &HeldOutFile) -> Parsed<HeldOut> {
        Ok(HeldOut {
            sizes: self.count(&format!("{table}.sizes"), &file.sizes, COUNT)? as u32,
            median_percent: self.number(&format!("{table}.median_percent"), &file.median_percent, PERCENT)?,
            worst_percent: self.number(&format!("{table}.worst_percent"), &file.worst_percent, PERCENT)?,
            worst_at: self.number(&format!("{table}.worst_at"), &file.worst_at, ROWS)?,
        })
    }

    fn padding(self, table: &str, file: &Spanned<PaddingCostFile>) -> Parsed<PaddingCost> {
        let PaddingCostFile { us_per_row, low, high, samples, to_rows } = file.get_ref();
        let slope = |key: &str, value: &Number| self.number(&format!("{table}.{key}"), value, SLOPE);
        let cost = PaddingCost {
            us_per_row: slope("us_per_row", us_per_row)?,
            low: slope("low", low)?,
            high: slope("high", high)?,
            samples: self.count(&format!("{table}.samples"), samples, VISITS)? as u32,
            to_rows: self.number(&format!("{table}.to_rows"), to_rows, ROWS)?,
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
            samples: self.count(&format!("{key}.samples"), samples, VISITS)? as u32,
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
