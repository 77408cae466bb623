//! The text of a profile: one fixed order, so that the same profile always has the same bytes.

mod measured;

use std::fmt::{Display, Write};

use super::curve::{Curve, Line, Table};
use super::parse::is_command;
use super::{
    Attention, Engine, Figures, Grid, Group, Identity, Machine, Mixed, PlanningRange, Profile, Provenance, SCHEMA,
    Surface,
};

/// Values on one line of a long array.
const PER_LINE: usize = 12;

impl Profile {
    /// The profile as the text of a file. Reading it back gives an equal profile; writing that gives equal bytes.
    pub fn to_toml(&self) -> String {
        let mut text = Text::default();
        text.value("schema", SCHEMA);
        text.quoted("name", &self.name);
        text.quoted("overlap", self.overlap.as_str());
        text.identity(&self.identity);
        text.measurement(self.measurement.as_ref());
        text.machine(&self.machine);
        text.engine(&self.engine);
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn value(&mut self, key: &str, value: impl Display) {
        writeln!(self.0, "{key} = {value}").expect("writing to a string");
    }

    /// What a reader would refuse, for a terminal could obey it, is replaced: names of devices and files hold anything.
    fn quoted(&mut self, key: &str, value: &str) {
        let text = value.chars().map(|c| if is_command(c) { '?' } else { c }).collect();
        self.value(key, toml::Value::String(text));
    }

    fn optional(&mut self, key: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.quoted(key, value);
        }
    }

    fn table(&mut self, name: &str) {
        write!(self.0, "\n[{name}]\n").expect("writing to a string");
    }

    /// An array on one line, or `width` values a line if it is longer than that.
    fn array(&mut self, key: &str, values: &[f64], width: usize) {
        let join = |row: &[f64]| row.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        if values.len() <= width {
            return self.value(key, format_args!("[{}]", join(values)));
        }
        writeln!(self.0, "{key} = [").expect("writing to a string");
        for row in values.chunks(width) {
            writeln!(self.0, "  {},", join(row)).expect("writing to a string");
        }
        self.0.push_str("]\n");
    }

    fn range(&mut self, key: &str, range: Option<PlanningRange>) {
        if let Some(PlanningRange { low, high }) = range {
            self.array(key, &[low, high], PER_LINE);
        }
    }

    fn provenance(&mut self, table: &str, provenance: &Provenance) {
        self.table(&format!("{table}.provenance"));
        self.quoted("kind", provenance.kind.as_str());
        self.quoted("source", &provenance.source);
        self.optional("licence", provenance.licence.as_ref());
        self.optional("method", provenance.method.as_ref());
        self.optional("valid", provenance.valid.as_ref());
        self.optional("range", provenance.range.as_ref());
    }

    fn group<T: Figures>(&mut self, table: &str, group: &Group<T>, figures: impl FnOnce(&mut Self, &T)) {
        self.table(table);
        figures(self, &group.figures);
        self.stated(table, group);
    }

    fn curve(&mut self, table: &str, quantity: &str, group: &Group<Curve>) {
        match &group.figures {
            Curve::Table(Table { axis, y, measured_to }) => {
                self.table(&format!("{table}.table"));
                if let Some(last) = measured_to {
                    self.value(&format!("measured_to_{quantity}"), last);
                }
                self.array(quantity, axis.knots(), PER_LINE);
                self.array("us", y, PER_LINE);
            }
            Curve::Line(Line { x0, y0, slope, valid }) => {
                self.table(&format!("{table}.line"));
                self.value("at_rows", x0);
                self.value("us", y0);
                self.value("us_per_row", slope);
                self.array("valid_rows", valid, PER_LINE);
            }
            Curve::Constant(value) => self.constant(table, *value),
        }
        self.stated(table, group);
    }

    fn constant(&mut self, table: &str, us: f64) {
        self.table(&format!("{table}.constant"));
        self.value("us", us);
    }

    fn surface(&mut self, table: &str, x_name: &str, y_name: &str, surface: &Surface) {
        match surface {
            Surface::Grid(Grid { x, y, values }) => {
                self.table(&format!("{table}.table"));
                self.array(x_name, x.knots(), PER_LINE);
                self.array(y_name, y.knots(), PER_LINE);
                self.array("us", values, y.knots().len());
            }
            Surface::Constant(value) => self.constant(table, *value),
        }
    }

    fn mixed(&mut self, table: &str, Mixed { axes, values }: &Mixed) {
        self.table(table);
        let names = ["chunk_tokens", "prefill_context_tokens", "decode_requests", "decode_context_tokens"];
        for (name, axis) in names.iter().zip(axes) {
            self.array(name, axis.knots(), PER_LINE);
        }
        self.array("us", values, axes[3].knots().len());
    }

    fn attention(&mut self, table: &str, group: Option<&Group<Attention>>) {
        let Some(group) = group else { return };
        let figures = &group.figures;
        self.table(table);
        self.value("separate_kernels", figures.separate_kernels);
        self.value("padded_request_us", figures.padded_request_us);
        if figures.shared_us != 0.0 {
            self.value("shared_us", figures.shared_us);
        }
        self.stated(table, group);
        self.surface(&format!("{table}.decode"), "requests", "context_tokens", &figures.decode);
        self.surface(&format!("{table}.prefill"), "chunk_tokens", "context_tokens", &figures.prefill);
        if let Some(mixed) = &figures.mixed {
            self.mixed(&format!("{table}.mixed"), mixed);
        }
    }

    fn identity(&mut self, identity: &Identity) {
        self.table("identity");
        self.quoted("device", &identity.device);
        self.optional("driver", identity.driver.as_ref());
        self.optional("host_cpu", identity.host_cpu.as_ref());
        self.quoted("engine", &identity.engine);
        self.optional("engine_version", identity.engine_version.as_ref());
        self.quoted("model_name", &identity.model_name);
        self.table("identity.model");
        let model = &identity.model;
        self.value("layers", model.layers);
        self.value("hidden", model.hidden);
        self.value("intermediate", model.intermediate);
        self.value("query_heads", model.query_heads);
        self.value("kv_heads", model.kv_heads);
        self.value("head_size", model.head_size);
        self.value("vocabulary", model.vocabulary);
        self.value("weight_bits", model.weight_bits);
        self.value("kv_bits", model.kv_bits);
        self.value("tied_embeddings", model.tied_embeddings);
        self.value("qkv_bias", model.qkv_bias);
        self.value("qk_norm", model.qk_norm);
    }

    fn machine(&mut self, machine: &Machine) {
        self.group("machine.memory", &machine.memory, |text, memory| text.value("total_bytes", memory.total.0));
        self.curve("machine.dense", "rows", &machine.dense);
        self.curve("machine.head", "sequences", &machine.head);
        self.group("machine.launch", &machine.launch, |text, launch| text.value("launch_us", launch.launch_us));
        self.group("machine.replay", &machine.replay, |text, replay| {
            text.value("fixed_us", replay.fixed_us);
            text.value("node_us", replay.node_us);
        });
        self.group("machine.update", &machine.update, |text, update| {
            text.value("update_us", update.update_us);
            if update.node_us != 0.0 {
                text.value("node_us", update.node_us);
            }
        });
        self.group("machine.pool", &machine.pool, |text, pool| {
            text.value("base_bytes", pool.base.0);
            text.value("bytes_per_row", pool.per_row.0);
            text.value("full_executable_bytes", pool.full_executable.0);
            text.value("piecewise_executable_bytes", pool.piecewise_executable.0);
        });
        self.group("machine.capture", &machine.capture, |text, capture| {
            text.value("full_s", capture.full_s);
            text.value("piecewise_s", capture.piecewise_s);
            text.value("first_extra_s", capture.first_extra_s);
        });
        if let Some(bandwidth) = &machine.bandwidth {
            self.group("machine.bandwidth", bandwidth, |text, bandwidth| {
                text.value("read_gb_per_s", bandwidth.read_gb_per_s);
            });
        }
        self.attention("machine.attention", machine.attention.as_ref());
        let gaps = [("machine.eager_gap", &machine.eager_gap), ("machine.piecewise_gap", &machine.piecewise_gap)];
        for (table, gap) in gaps {
            if let Some(gap) = gap {
                self.curve(table, "rows", gap);
            }
        }
    }

    fn engine(&mut self, engine: &Engine) {
        self.attention("engine.attention", engine.attention.as_ref());
        self.group("engine.ops", &engine.ops, |text, ops| {
            text.value("eager", ops.eager);
            text.value("compiled", ops.compiled);
            text.value("graph_nodes", ops.graph_nodes);
            text.value("attention_launches", ops.attention_launches);
        });
        self.group("engine.dispatch", &engine.dispatch, |text, dispatch| {
            text.value("eager_us", dispatch.eager_us);
            text.range("eager_us_range", dispatch.eager_us_range);
            text.value("compiled_us", dispatch.compiled_us);
            text.range("compiled_us_range", dispatch.compiled_us_range);
        });
        self.group("engine.host", &engine.host, |text, host| {
            text.value("step_overhead_us", host.step_overhead_us);
            text.value("per_request_us", host.per_request_us);
            text.value("padding_bookkeeping_us", host.padding_bookkeeping_us);
        });
        self.group("engine.activation", &engine.activation, |text, activation| {
            text.value("base_bytes", activation.base.0);
            text.value("bytes_per_row", activation.per_row.0);
        });
        self.group("engine.startup", &engine.startup, |text, startup| {
            text.value("trace_s", startup.trace_s);
            text.value("compile_cold_s", startup.compile_cold_s);
            text.value("compile_warm_s", startup.compile_warm_s);
            text.value("memory_profiling_s", startup.memory_profiling_s);
            text.value("graph_sample_s", startup.graph_sample_s);
            text.value("kernel_warm_up_s", startup.kernel_warm_up_s);
            text.value("sampler_warm_up_s", startup.sampler_warm_up_s);
            if let Some(per_capture_s) = startup.per_capture_s {
                text.value("per_capture_s", per_capture_s);
            }
            text.value("other_s", startup.other_s);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Axis;

    /// Rising knots and as many costs, any floats that a profile may hold.
    fn tables() -> impl Strategy<Value = Table> {
        prop::collection::btree_map(1_u32..1_000_000, 1e-6..1e9, 2..40).prop_map(|points| {
            let x: Vec<_> = points.keys().map(|&x| f64::from(x)).collect();
            Table { measured_to: Some(x[0]), axis: Axis::new(x).unwrap(), y: points.into_values().collect() }
        })
    }

    proptest! {
        #[test]
        fn any_profile_reads_back_as_it_was(dense in tables(), head in tables(), us in 1e-6..1e9, source in "\\PC{1,40}") {
            let mut profile = Profile::builtin("textbook").unwrap();
            profile.machine.dense.figures = Curve::Table(dense);
            profile.machine.head.figures = Curve::Table(head);
            profile.machine.launch.figures.launch_us = us;
            profile.machine.update.figures.node_us = us;
            profile.engine.startup.figures.per_capture_s = Some(us.min(1e6));
            profile.machine.launch.provenance.source = format!("x{source}x");
            let text = profile.to_toml();
            let back = Profile::from_toml(&text, "memory").unwrap();
            prop_assert_eq!(&back, &profile);
            prop_assert_eq!(back.to_toml(), text);
        }
    }

    #[test]
    fn a_measured_profile_reads_back_byte_for_byte() {
        let text = include_str!("../../../tests/calibrate/double.toml");
        let profile = Profile::from_toml(text, "double.toml").unwrap();
        assert_eq!(profile.to_toml(), text);
        assert!(text.lines().all(|line| line.len() < 500), "no line that nobody can read");
    }

    #[test]
    fn planning_ranges_stand_below_their_figures() {
        let mut profile = Profile::builtin("textbook").unwrap();
        let dispatch = &mut profile.engine.dispatch.figures;
        dispatch.compiled_us = 10.0;
        dispatch.compiled_us_range = Some(PlanningRange { low: 2.5, high: 20.0 });
        let text = profile.to_toml();
        assert!(text.contains("\neager_us = 0\ncompiled_us = 10\ncompiled_us_range = [2.5, 20]\n\n"), "{text}");
        let back = Profile::from_toml(&text, "memory").unwrap();
        assert_eq!((&back, back.to_toml()), (&profile, text));
    }

    #[test]
    fn long_arrays_break_into_lines_and_short_ones_do_not() {
        let mut text = Text::default();
        text.array("rows", &[1.0, 2.5], 2);
        text.array("us", &[1.0, 2.0, 3.0], 2);
        assert_eq!(text.0, "rows = [1, 2.5]\nus = [\n  1, 2,\n  3,\n]\n");
    }
}
