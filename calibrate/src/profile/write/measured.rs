//! What a profile states about its measurement, as text.

use std::fmt::{Display, Write};

use super::super::{Figures, Group, HeldOut, Interval, Measured, Measurement, PaddingCost, Rungs};
use super::{PER_LINE, Text};

impl Text {
    /// Where a group's figures come from, and how they were measured.
    pub(super) fn stated<T: Figures>(&mut self, table: &str, group: &Group<T>) {
        self.provenance(table, &group.provenance);
        if let Some(measured) = &group.measured {
            self.measured(&format!("{table}.measured"), measured);
        }
    }

    fn measured(&mut self, table: &str, Measured { protocol, held_out, padding, intervals }: &Measured) {
        if let Some(protocol) = protocol {
            self.table(&format!("{table}.protocol"));
            self.value("rounds", protocol.rounds);
            self.value("warm_up_visits", protocol.warm_up_visits);
            self.value("outliers", protocol.outliers);
            self.value("drift_ratio", protocol.drift_ratio);
            self.quoted("stopped_by", &protocol.stopped_by);
        }
        if let Some(HeldOut { sizes, median_percent, worst_percent, worst_at }) = held_out {
            self.table(&format!("{table}.held_out"));
            self.value("sizes", sizes);
            self.value("median_percent", median_percent);
            self.value("worst_percent", worst_percent);
            self.value("worst_at", worst_at);
        }
        if let Some(PaddingCost { us_per_row, low, high, samples, to_rows }) = padding {
            self.table(&format!("{table}.padding"));
            self.value("us_per_row", us_per_row);
            self.value("low", low);
            self.value("high", high);
            self.value("samples", samples);
            self.value("to_rows", to_rows);
        }
        let mut singles = intervals.iter().filter_map(|(name, intervals)| match intervals[..] {
            [interval] => Some((name, interval)),
            _ => None,
        });
        if let Some(first) = singles.next() {
            self.table(&format!("{table}.intervals"));
            for (name, Interval { low, high, samples }) in [first].into_iter().chain(singles) {
                self.value(name, format_args!("{{ low = {low}, high = {high}, samples = {samples} }}"));
            }
        }
        for (name, intervals) in intervals.iter().filter(|(_, intervals)| intervals.len() > 1) {
            self.table(&format!("{table}.knots.{name}"));
            let column = |of: fn(&Interval) -> f64| intervals.iter().map(of).collect::<Vec<_>>();
            self.array("low", &column(|interval| interval.low), PER_LINE);
            self.array("high", &column(|interval| interval.high), PER_LINE);
            self.array("samples", &column(|interval| interval.samples.into()), PER_LINE);
        }
    }

    pub(super) fn measurement(&mut self, measurement: Option<&Measurement>) {
        let Some(measurement) = measurement else { return };
        self.table("measurement");
        self.quoted("date", &measurement.date);
        self.quoted("calibrate_version", &measurement.calibrate_version);
        self.quoted("options", &measurement.options);
        self.value("took_s", measurement.took_s);
        self.optional("cuda_version", measurement.cuda_version.as_ref());
        self.optional("compute_capability", measurement.compute_capability.as_ref());
        self.quoted("gemm_backend", &measurement.gemm_backend);
        self.value("tensor_parallel", measurement.tensor_parallel);
        if let Some(layers) = measurement.weight_layers {
            self.value("weight_layers", layers);
        }
        if let Some(clocks) = &measurement.sm_clock_mhz {
            self.array("sm_clock_mhz", clocks, PER_LINE);
        }
        for warning in &measurement.warnings {
            self.element("measurement.warning");
            self.quoted("code", &warning.code);
            self.quoted("what", &warning.what);
            self.optional("advice", warning.advice.as_ref());
        }
        for left_out in &measurement.not_measured {
            self.element("measurement.not_measured");
            self.quoted("what", &left_out.what);
            self.quoted("why", &left_out.why);
        }
        self.rungs("measurement.full", measurement.full.as_ref());
        self.rungs("measurement.piecewise", measurement.piecewise.as_ref());
    }

    fn element(&mut self, name: impl Display) {
        write!(self.0, "\n[[{name}]]\n").expect("writing to a string");
    }

    fn rungs(&mut self, table: &str, rungs: Option<&Rungs>) {
        let Some(rungs) = rungs else { return };
        self.table(table);
        for (name, values) in rungs.columns() {
            self.array(name, values, PER_LINE);
        }
    }
}
