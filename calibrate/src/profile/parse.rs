//! From the file form to a [`Profile`] in which no invalid value exists.

mod measured;
mod places;
mod plausible;
mod ranges;
mod rule;
mod run;

use kernels::geometry::{ModelGeometry, ModelShape};
use kernels::units::Bytes;
use toml::Spanned;

use super::curve::{Axis, Curve, Line, Table};
use super::error::Origin;
use super::file::{
    AttentionFile, ConstantFile, Count, DenseFile, DispatchFile, Ends, EngineFile, HeadFile, IdentityFile, LineFile,
    MachineFile, MixedFile, ModelFile, Number, ProfileFile, ProvenanceFile, SchemaFile, Stated, Text,
};
use super::{
    Activation, Attention, Bandwidth, Capture, DispatchCost, Engine, Figures, Grid, Group, Host, Identity, Kind,
    Launch, Machine, Memory, Mixed, Ops, PlanningRange, Pool, Profile, ProfileError, Provenance, Replay, SCHEMA,
    Startup, Surface, Update,
};

use rule::{BYTES, COUNT, GB_PER_S, MICROSECONDS, PLACE, ROWS, Rule, SECONDS};

type Parsed<T> = Result<T, ProfileError>;

/// The engines that profiles are made for.
const ENGINES: [&str; 2] = ["vllm", "sglang"];
/// The most values of one table.
const MOST_VALUES: usize = 1 << 20;

impl Profile {
    /// Reads a profile from the text of a file; `origin` names that file in errors.
    ///
    /// # Errors
    /// [`ProfileError::Invalid`] with the place of the first fault: TOML syntax, another schema version, an unknown or
    /// missing key, a number out of its range, knots that do not rise, unequal lengths, missing provenance, a control
    /// character in a text, figures that count as measured and are not.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let origin = Origin { name: origin, text };
        check_schema(origin)?;
        let file: ProfileFile = toml::from_str(text).map_err(|error| origin.unreadable(&error))?;
        let profile = Self {
            name: origin.words("name", &file.name)?,
            identity: origin.identity(&file.identity)?,
            measurement: file.measurement.as_ref().map(|file| origin.measurement(file)).transpose()?,
            overlap: file.overlap,
            machine: origin.machine(&file.machine)?,
            engine: origin.engine(&file.engine)?,
        };
        origin.plausible(&profile)?;
        Ok(profile)
    }
}

/// The version comes first: under another one, every other complaint would mislead.
fn check_schema(origin: Origin<'_>) -> Parsed<()> {
    let file: SchemaFile = toml::from_str(origin.text).map_err(|error| origin.unreadable(&error))?;
    let supported = format!("this build reads schema {SCHEMA}");
    match file.schema {
        None => {
            let help = format!("write `schema = {SCHEMA}` as the first line");
            Err(origin.fault("schema", 0..0, format!("no schema version: {supported}"), help))
        }
        Some(found) if *found.get_ref() == i64::from(SCHEMA) => Ok(()),
        Some(found) => {
            let problem = format!("schema {}: {supported}", found.get_ref());
            let help = "use the release of rungwise that wrote the profile, or write the profile anew with this one";
            Err(origin.fault("schema", found.span(), problem, help))
        }
    }
}

/// Whether a terminal could take the character for a command, or show the text around it in another order.
pub(super) fn is_command(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || reorders
}

/// Single values.
impl Origin<'_> {
    fn number(self, key: &str, value: &Number, rule: Rule) -> Parsed<f64> {
        let found = *value.get_ref();
        if rule.accepts(found) {
            return Ok(found);
        }
        let problem = format!("{found}: {}", rule.expectation());
        Err(self.fault(key, value.span(), problem, "correct the number; check its unit, which the key names"))
    }

    fn count(self, key: &str, value: &Count, rule: Rule) -> Parsed<u64> {
        let found = *value.get_ref();
        if rule.accepts(found as f64) {
            return Ok(found.unsigned_abs());
        }
        let problem = format!("{found}: {}", rule.expectation());
        Err(self.fault(key, value.span(), problem, "correct the number; check its unit, which the key names"))
    }

    fn bytes(self, key: &str, value: &Count, rule: Rule) -> Parsed<Bytes> {
        self.count(key, value, rule).map(Bytes)
    }

    fn words(self, key: &str, value: &Text) -> Parsed<String> {
        let found = value.get_ref().trim();
        if found.is_empty() {
            return Err(self.fault(key, value.span(), "empty: expected some text", "fill it in"));
        }
        // Whoever prints the text would hand them to a terminal, which obeys them.
        if let Some(control) = found.chars().find(|&c| is_command(c)) {
            let problem = format!("a control character (U+{:04X}): expected plain text", u32::from(control));
            return Err(self.fault(key, value.span(), problem, "remove it; lines and tabs are allowed"));
        }
        Ok(found.to_owned())
    }

    fn optional_words(self, key: &str, value: Option<&Text>) -> Parsed<Option<String>> {
        value.map(|value| self.words(key, value)).transpose()
    }

    fn missing(self, table: &str, problem: &str, help: &str) -> ProfileError {
        self.fault(table, self.table_span(table), problem, help)
    }
}

/// Provenance.
impl Origin<'_> {
    fn group<T: Figures>(self, table: &str, figures: T, stated: Stated<'_>) -> Parsed<Group<T>> {
        let Some(file) = stated.provenance else {
            let help = format!("add [{table}.provenance] with kind and source");
            return Err(self.missing(table, "no provenance: every group says where its figures come from", &help));
        };
        let provenance = self.provenance(&format!("{table}.provenance"), file)?;
        let measured = stated.measured.map(|file| self.measured(table, &figures, provenance.kind, file)).transpose()?;
        Ok(Group { figures, provenance, measured })
    }

    fn provenance(self, table: &str, file: &ProvenanceFile) -> Parsed<Provenance> {
        let needed: &[(&str, &Option<Text>, &str)] = match file.kind {
            Kind::Imported => &[("licence", &file.licence, "the licence of the published figures")],
            Kind::Derived => &[
                ("method", &file.method, "how the figures were computed"),
                ("valid", &file.valid, "where the figures hold"),
            ],
            Kind::Declared => &[("range", &file.range, "the range in which the figures are plausible")],
            Kind::Measured | Kind::Double => &[],
        };
        for (key, value, meaning) in needed {
            if value.is_none() {
                let problem = format!("no {key}: {} figures need it", file.kind);
                return Err(self.missing(table, &problem, &format!("add {key}: {meaning}")));
            }
        }
        let optional = |key: &str, value: &Option<Text>| self.optional_words(&format!("{table}.{key}"), value.as_ref());
        Ok(Provenance {
            kind: file.kind,
            source: self.words(&format!("{table}.source"), &file.source)?,
            licence: optional("licence", &file.licence)?,
            method: optional("method", &file.method)?,
            valid: optional("valid", &file.valid)?,
            range: optional("range", &file.range)?,
        })
    }
}

/// Planning ranges.
impl Origin<'_> {
    /// The range of the figure `name`, which is `figure_us` microseconds, under the key `name` with `_range` behind it.
    fn planning_range(
        self,
        (table, name): (&str, &str),
        ends: &Ends,
        figure_us: f64,
        provenance: Option<&ProvenanceFile>,
    ) -> Parsed<PlanningRange> {
        let key = format!("{table}.{name}_range");
        let refuse = |problem: String, help: &str| Err(self.fault(&*key, ends.span(), problem, help));
        if let Some(ProvenanceFile { kind, .. }) = provenance
            && *kind != Kind::Declared
        {
            let problem = format!("a planning range of {kind} figures: only declared figures have one");
            return refuse(problem, "remove the range");
        }
        let [low, high] = &ends.get_ref()[..] else {
            let problem = format!("{} values: expected the low and the high end", ends.get_ref().len());
            return refuse(problem, "write [low, high]");
        };
        let low = self.number(&format!("{key}[0]"), low, MICROSECONDS.or_zero())?;
        let high = self.number(&format!("{key}[1]"), high, MICROSECONDS)?;
        if high <= low {
            return refuse(format!("[{low}, {high}]: the high end must lie above the low one"), "write [low, high]");
        }
        if figure_us < low || figure_us > high {
            let problem = format!("[{low}, {high}]: expected a range that holds {name} = {figure_us}");
            return refuse(problem, "widen the range, or correct the figure");
        }
        Ok(PlanningRange { low, high })
    }
}

/// Curves and grids.
impl Origin<'_> {
    fn axis(self, key: &str, knots: &Spanned<Vec<Number>>, rule: Rule) -> Parsed<Axis> {
        let values = knots.get_ref();
        if values.len() < 2 || values.len() > MOST_VALUES {
            let problem = format!("{} knots: expected 2 to {MOST_VALUES}", values.len());
            return Err(self.fault(key, knots.span(), problem, "give at least two knots, or use `constant`"));
        }
        for (index, pair) in values.windows(2).enumerate() {
            let (before, after) = (pair[0].get_ref(), pair[1].get_ref());
            if after <= before {
                let problem = format!("{after} after {before}: knots must rise strictly");
                let help = "sort the knots, together with their costs, and keep one of each";
                return Err(self.fault(format!("{key}[{}]", index + 1), pair[1].span(), problem, help));
            }
        }
        let knot = |(index, value): (usize, &Number)| self.number(&format!("{key}[{index}]"), value, rule);
        let knots = values.iter().enumerate().map(knot).collect::<Parsed<Vec<f64>>>()?;
        Ok(Axis::new(knots).expect("checked above"))
    }

    fn costs(self, key: &str, costs: &Spanned<Vec<Number>>, expected: usize) -> Parsed<Vec<f64>> {
        let values = costs.get_ref();
        if values.len() != expected {
            let problem = format!("{} costs for {expected} knots", values.len());
            return Err(self.fault(key, costs.span(), problem, "give one cost for each knot"));
        }
        let cost = |(index, value): (usize, &Number)| self.number(&format!("{key}[{index}]"), value, MICROSECONDS);
        values.iter().enumerate().map(cost).collect()
    }

    fn table(
        self,
        table: &str,
        (quantity, knots): (&str, &Spanned<Vec<Number>>),
        us: &Spanned<Vec<Number>>,
        measured_to: Option<&Number>,
    ) -> Parsed<Curve> {
        let axis = self.axis(&format!("{table}.table.{quantity}"), knots, ROWS)?;
        let y = self.costs(&format!("{table}.table.us"), us, axis.knots().len())?;
        if let Some(last) = measured_to
            && !axis.knots().contains(last.get_ref())
        {
            let key = format!("{table}.table.measured_to_{quantity}");
            let problem = format!("{}: expected one of {quantity}", last.get_ref());
            return Err(self.fault(key, last.span(), problem, "name the last measured knot"));
        }
        Ok(Curve::Table(Table { axis, y, measured_to: measured_to.map(|last| *last.get_ref()) }))
    }

    fn line(self, table: &str, file: &LineFile) -> Parsed<Curve> {
        let key = |name: &str| format!("{table}.line.{name}");
        let [first, last] = &file.valid_rows.get_ref()[..] else {
            let problem = format!("{} values: expected the first and the last row", file.valid_rows.get_ref().len());
            return Err(self.fault(key("valid_rows"), file.valid_rows.span(), problem, "write [first, last]"));
        };
        let first = self.number(&key("valid_rows"), first, ROWS.or_zero())?;
        let last = self.number(&key("valid_rows"), last, ROWS)?;
        if last <= first {
            let problem = format!("[{first}, {last}]: the last row must lie above the first");
            return Err(self.fault(key("valid_rows"), file.valid_rows.span(), problem, "write [first, last]"));
        }
        let line = Line {
            x0: self.number(&key("at_rows"), &file.at_rows, PLACE)?,
            y0: self.number(&key("us"), &file.us, MICROSECONDS)?,
            slope: self.number(&key("us_per_row"), &file.us_per_row, MICROSECONDS.or_zero())?,
            valid: [first, last],
        };
        let lowest = line.at(first).value;
        if lowest < 0.0 {
            let problem = format!("{lowest} us at {first} rows: the line falls below zero inside its valid range");
            return Err(self.fault(key("valid_rows"), file.valid_rows.span(), problem, "raise the first valid row"));
        }
        Ok(Curve::Line(line))
    }

    fn constant(self, table: &str, file: &ConstantFile) -> Parsed<f64> {
        self.number(&format!("{table}.constant.us"), &file.us, MICROSECONDS.or_zero())
    }

    fn shape_fault(self, table: &str, shapes: &str) -> ProfileError {
        self.missing(table, &format!("expected exactly one of {shapes}"), "keep one of them and remove the others")
    }

    fn dense(self, table: &str, file: &DenseFile) -> Parsed<Curve> {
        match (&file.table, &file.line, &file.constant) {
            (Some(t), None, None) => self.table(table, ("rows", &t.rows), &t.us, t.measured_to_rows.as_ref()),
            (None, Some(line), None) => self.line(table, line),
            (None, None, Some(constant)) => self.constant(table, constant).map(Curve::Constant),
            _ => Err(self.shape_fault(table, "table, line and constant")),
        }
    }

    /// Written as the staircase is.
    fn gap(self, table: &str, file: Option<&DenseFile>) -> Parsed<Option<Group<Curve>>> {
        file.map(|file| self.group(table, self.dense(table, file)?, file.stated())).transpose()
    }

    fn head(self, table: &str, file: &HeadFile) -> Parsed<Curve> {
        match (&file.table, &file.constant) {
            (Some(t), None) => self.table(table, ("sequences", &t.sequences), &t.us, t.measured_to_sequences.as_ref()),
            (None, Some(constant)) => self.constant(table, constant).map(Curve::Constant),
            _ => Err(self.shape_fault(table, "table and constant")),
        }
    }

    fn grid(
        self,
        table: &str,
        (x_name, x): (&str, &Spanned<Vec<Number>>),
        (y_name, y): (&str, &Spanned<Vec<Number>>),
        us: &Spanned<Vec<Number>>,
    ) -> Parsed<Surface> {
        let x = self.axis(&format!("{table}.table.{x_name}"), x, ROWS)?;
        let y = self.axis(&format!("{table}.table.{y_name}"), y, PLACE)?;
        let values = self.costs(&format!("{table}.table.us"), us, x.knots().len() * y.knots().len())?;
        Ok(Surface::Grid(Grid { x, y, values }))
    }

    fn mixed(self, table: &str, file: &MixedFile) -> Parsed<Mixed> {
        let key = |name: &str| format!("{table}.{name}");
        let axes = [
            self.axis(&key("chunk_tokens"), &file.chunk_tokens, ROWS)?,
            self.axis(&key("prefill_context_tokens"), &file.prefill_context_tokens, PLACE)?,
            self.axis(&key("decode_requests"), &file.decode_requests, ROWS)?,
            self.axis(&key("decode_context_tokens"), &file.decode_context_tokens, PLACE)?,
        ];
        let expected = axes.iter().fold(1_usize, |size, axis| size.saturating_mul(axis.knots().len()));
        Ok(Mixed { values: self.costs(&key("us"), &file.us, expected)?, axes })
    }

    fn attention(self, table: &str, file: Option<&AttentionFile>) -> Parsed<Option<Group<Attention>>> {
        let Some(file) = file else { return Ok(None) };
        let (decode_table, prefill_table) = (format!("{table}.decode"), format!("{table}.prefill"));
        let decode = match (&file.decode.table, &file.decode.constant) {
            (Some(t), None) => {
                self.grid(&decode_table, ("requests", &t.requests), ("context_tokens", &t.context_tokens), &t.us)?
            }
            (None, Some(constant)) => Surface::Constant(self.constant(&decode_table, constant)?),
            _ => return Err(self.shape_fault(&decode_table, "table and constant")),
        };
        let prefill = match (&file.prefill.table, &file.prefill.constant) {
            (Some(t), None) => {
                let (chunk, context) = (("chunk_tokens", &t.chunk_tokens), ("context_tokens", &t.context_tokens));
                self.grid(&prefill_table, chunk, context, &t.us)?
            }
            (None, Some(constant)) => Surface::Constant(self.constant(&prefill_table, constant)?),
            _ => return Err(self.shape_fault(&prefill_table, "table and constant")),
        };
        let padded = format!("{table}.padded_request_us");
        let shared = |us: &Number| self.number(&format!("{table}.shared_us"), us, MICROSECONDS.or_zero());
        let figures = Attention {
            decode,
            prefill,
            mixed: file.mixed.as_ref().map(|mixed| self.mixed(&format!("{table}.mixed"), mixed)).transpose()?,
            separate_kernels: file.separate_kernels,
            padded_request_us: self.number(&padded, &file.padded_request_us, MICROSECONDS.or_zero())?,
            shared_us: file.shared_us.as_ref().map_or(Ok(0.0), shared)?,
        };
        self.group(table, figures, file.stated()).map(Some)
    }
}

/// The halves of the file.
impl Origin<'_> {
    fn identity(self, file: &IdentityFile) -> Parsed<Identity> {
        Ok(Identity {
            device: self.words("identity.device", &file.device)?,
            driver: self.optional_words("identity.driver", file.driver.as_ref())?,
            host_cpu: self.optional_words("identity.host_cpu", file.host_cpu.as_ref())?,
            engine: self.engine_name("identity.engine", &file.engine)?,
            engine_version: self.optional_words("identity.engine_version", file.engine_version.as_ref())?,
            model_name: self.words("identity.model_name", &file.model_name)?,
            model: self.model(&file.model)?,
        })
    }

    fn engine_name(self, key: &str, value: &Text) -> Parsed<String> {
        let found = self.words(key, value)?;
        if ENGINES.iter().any(|engine| engine.eq_ignore_ascii_case(&found)) {
            return Ok(found);
        }
        let problem = format!("{found}: expected one of {}", ENGINES.join(", "));
        Err(self.fault(key, value.span(), problem, "name the engine that is simulated with the profile"))
    }

    fn model(self, file: &ModelFile) -> Parsed<ModelGeometry> {
        const TABLE: &str = "identity.model";
        let count = |key: &str, value: &Count| {
            let rule = Rule::positive(f64::from(u32::MAX), "a count");
            self.count(&format!("{TABLE}.{key}"), value, rule).map(|count| count as u32)
        };
        let shape = ModelShape {
            layers: count("layers", &file.layers)?,
            hidden: count("hidden", &file.hidden)?,
            intermediate: count("intermediate", &file.intermediate)?,
            query_heads: count("query_heads", &file.query_heads)?,
            kv_heads: count("kv_heads", &file.kv_heads)?,
            head_size: count("head_size", &file.head_size)?,
            vocabulary: count("vocabulary", &file.vocabulary)?,
            weight_bits: count("weight_bits", &file.weight_bits)?,
            kv_bits: count("kv_bits", &file.kv_bits)?,
            tied_embeddings: file.tied_embeddings,
            qkv_bias: file.qkv_bias,
            qk_norm: file.qk_norm,
        };
        ModelGeometry::new(shape).map_err(|error| {
            let problem = format!("{}: expected {}", error.value, error.expected);
            let key = format!("{TABLE}.{}", error.key);
            self.fault(key, self.table_span(TABLE), problem, "copy the numbers from the model's config.json")
        })
    }

    fn machine(self, file: &MachineFile) -> Parsed<Machine> {
        let us = |key: &str, value: &Number, rule: Rule| self.number(&format!("machine.{key}"), value, rule);
        let bytes = |key: &str, value: &Count| self.bytes(&format!("machine.{key}"), value, BYTES.or_zero());
        let memory = Memory { total: self.bytes("machine.memory.total_bytes", &file.memory.total_bytes, BYTES)? };
        let dense = self.dense("machine.dense", &file.dense)?;
        let head = self.head("machine.head", &file.head)?;
        let launch = Launch { launch_us: us("launch.launch_us", &file.launch.launch_us, MICROSECONDS)? };
        let replay = Replay {
            fixed_us: us("replay.fixed_us", &file.replay.fixed_us, MICROSECONDS)?,
            node_us: us("replay.node_us", &file.replay.node_us, MICROSECONDS.or_zero())?,
        };
        let node_us = file.update.node_us.as_ref();
        let update = Update {
            update_us: us("update.update_us", &file.update.update_us, MICROSECONDS.or_zero())?,
            node_us: node_us.map_or(Ok(0.0), |node_us| us("update.node_us", node_us, MICROSECONDS.or_zero()))?,
        };
        let pool = Pool {
            base: bytes("pool.base_bytes", &file.pool.base_bytes)?,
            per_row: bytes("pool.bytes_per_row", &file.pool.bytes_per_row)?,
            full_executable: bytes("pool.full_executable_bytes", &file.pool.full_executable_bytes)?,
            piecewise_executable: bytes("pool.piecewise_executable_bytes", &file.pool.piecewise_executable_bytes)?,
        };
        let capture = Capture {
            full_s: us("capture.full_s", &file.capture.full_s, SECONDS)?,
            piecewise_s: us("capture.piecewise_s", &file.capture.piecewise_s, SECONDS)?,
            first_extra_s: us("capture.first_extra_s", &file.capture.first_extra_s, SECONDS.or_zero())?,
        };
        let bandwidth = match &file.bandwidth {
            None => None,
            Some(file) => {
                let read_gb_per_s = us("bandwidth.read_gb_per_s", &file.read_gb_per_s, GB_PER_S)?;
                Some(self.group("machine.bandwidth", Bandwidth { read_gb_per_s }, file.stated())?)
            }
        };
        Ok(Machine {
            memory: self.group("machine.memory", memory, file.memory.stated())?,
            dense: self.group("machine.dense", dense, file.dense.stated())?,
            head: self.group("machine.head", head, file.head.stated())?,
            launch: self.group("machine.launch", launch, file.launch.stated())?,
            replay: self.group("machine.replay", replay, file.replay.stated())?,
            update: self.group("machine.update", update, file.update.stated())?,
            pool: self.group("machine.pool", pool, file.pool.stated())?,
            capture: self.group("machine.capture", capture, file.capture.stated())?,
            bandwidth,
            attention: self.attention("machine.attention", file.attention.as_ref())?,
            eager_gap: self.gap("machine.eager_gap", file.eager_gap.as_ref())?,
            piecewise_gap: self.gap("machine.piecewise_gap", file.piecewise_gap.as_ref())?,
        })
    }

    fn dispatch(self, file: &DispatchFile) -> Parsed<Group<DispatchCost>> {
        const TABLE: &str = "engine.dispatch";
        let Stated { provenance, .. } = file.stated();
        let eager_us = self.number(&format!("{TABLE}.eager_us"), &file.eager_us, MICROSECONDS.or_zero())?;
        let compiled_us = self.number(&format!("{TABLE}.compiled_us"), &file.compiled_us, MICROSECONDS.or_zero())?;
        let range = |name: &str, ends: Option<&Ends>, figure_us| {
            ends.map(|ends| self.planning_range((TABLE, name), ends, figure_us, provenance)).transpose()
        };
        let figures = DispatchCost {
            eager_us,
            eager_us_range: range("eager_us", file.eager_us_range.as_ref(), eager_us)?,
            compiled_us,
            compiled_us_range: range("compiled_us", file.compiled_us_range.as_ref(), compiled_us)?,
        };
        self.group(TABLE, figures, file.stated())
    }

    fn engine(self, file: &EngineFile) -> Parsed<Engine> {
        let number =
            |key: &str, value: &Number, rule: Rule| self.number(&format!("engine.{key}"), value, rule.or_zero());
        let bytes = |key: &str, value: &Count| self.bytes(&format!("engine.{key}"), value, BYTES.or_zero());
        let count = |key: &str, value: &Count, rule: Rule| {
            self.count(&format!("engine.{key}"), value, rule).map(|count| count as u32)
        };
        let ops = Ops {
            eager: count("ops.eager", &file.ops.eager, COUNT)?,
            compiled: count("ops.compiled", &file.ops.compiled, COUNT)?,
            graph_nodes: count("ops.graph_nodes", &file.ops.graph_nodes, COUNT)?,
            attention_launches: count("ops.attention_launches", &file.ops.attention_launches, COUNT.or_zero())?,
        };
        let host = Host {
            step_overhead_us: number("host.step_overhead_us", &file.host.step_overhead_us, MICROSECONDS)?,
            per_request_us: number("host.per_request_us", &file.host.per_request_us, MICROSECONDS)?,
            padding_bookkeeping_us: number(
                "host.padding_bookkeeping_us",
                &file.host.padding_bookkeeping_us,
                MICROSECONDS,
            )?,
        };
        let activation = Activation {
            base: bytes("activation.base_bytes", &file.activation.base_bytes)?,
            per_row: bytes("activation.bytes_per_row", &file.activation.bytes_per_row)?,
        };
        let seconds = |key: &str, value: &Number| number(&format!("startup.{key}"), value, SECONDS);
        let per_capture = file.startup.per_capture_s.as_ref();
        let startup = Startup {
            trace_s: seconds("trace_s", &file.startup.trace_s)?,
            compile_cold_s: seconds("compile_cold_s", &file.startup.compile_cold_s)?,
            compile_warm_s: seconds("compile_warm_s", &file.startup.compile_warm_s)?,
            memory_profiling_s: seconds("memory_profiling_s", &file.startup.memory_profiling_s)?,
            graph_sample_s: seconds("graph_sample_s", &file.startup.graph_sample_s)?,
            kernel_warm_up_s: seconds("kernel_warm_up_s", &file.startup.kernel_warm_up_s)?,
            sampler_warm_up_s: seconds("sampler_warm_up_s", &file.startup.sampler_warm_up_s)?,
            per_capture_s: per_capture.map(|value| seconds("per_capture_s", value)).transpose()?,
            other_s: seconds("other_s", &file.startup.other_s)?,
        };
        Ok(Engine {
            attention: self.attention("engine.attention", file.attention.as_ref())?,
            ops: self.group("engine.ops", ops, file.ops.stated())?,
            dispatch: self.dispatch(&file.dispatch)?,
            host: self.group("engine.host", host, file.host.stated())?,
            activation: self.group("engine.activation", activation, file.activation.stated())?,
            startup: self.group("engine.startup", startup, file.startup.stated())?,
        })
    }
}

#[cfg(test)]
mod tests;
