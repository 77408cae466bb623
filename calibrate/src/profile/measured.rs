//! What a measurement states about the figures of one group: how far they can be off, and how they were taken.

use super::{
    Activation, AnyGroup, Attention, Axis, Bandwidth, Capture, Curve, DispatchCost, Host, Launch, Memory, Mixed, Ops,
    Pool, Replay, Startup, Surface, Update,
};

/// The least that calibrate writes of what takes any time at all, in the figure's unit: what it cannot tell from nothing.
pub const LEAST_FIGURE: f64 = 1e-6;

/// How the figures of one group were measured (GPU specification section 4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Rounds, warm-up, outliers, drift; none of what was measured once or counted.
    pub protocol: Option<Protocol>,
    /// The error at sizes that were left out of the table and read from it.
    pub held_out: Option<HeldOut>,
    /// What a row of padding costs, of a table over rows.
    pub padding: Option<PaddingCost>,
    /// Intervals by the figure's key in the file, in the order of [`Figures::figures`]: one, or one a knot of the
    /// figure's table. Of measured figures only those that were counted, read from the driver or happen once have none; of a mode
    /// that was not captured, its own.
    pub intervals: Vec<(&'static str, Vec<Interval>)>,
}

impl Measured {
    /// The intervals of one figure; none if it has none.
    pub fn of(&self, figure: &str) -> &[Interval] {
        self.intervals.iter().find(|(name, _)| *name == figure).map_or(&[], |(_, intervals)| intervals)
    }
}

/// A 95 % interval around a figure, in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The low end, not above the figure.
    pub low: f64,
    /// The high end, not below the figure.
    pub high: f64,
    /// Measurements it rests on.
    pub samples: u32,
}

impl Interval {
    /// Whether both could hold the same value.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether it holds zero: its figure, a difference, cannot be told from nothing.
    pub fn holds_nothing(&self) -> bool {
        self.low <= 0.0
    }

    /// Half its width in percent of its figure; 0 of a figure that is 0.
    pub fn half_width_percent(&self, figure: f64) -> f64 {
        if figure == 0.0 { 0.0 } else { 50.0 * (self.high - self.low) / figure }
    }
}

/// How the measurements of a group went.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    /// Rounds, in each of which every size was visited once, in random order.
    pub rounds: u32,
    /// Visits while the machine warmed up, which do not count.
    pub warm_up_visits: u32,
    /// Visits more than five median deviations from their median: flagged, and kept.
    pub outliers: u32,
    /// How much slower the machine became: later over earlier times of the same work; 1 is steady, 0.66 to 1.5 are read.
    pub drift_ratio: f64,
    /// What ended it, in words.
    pub stopped_by: String,
}

/// The errors at sizes that are left out one after the other and read from their neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// How many sizes; at most those with others to both sides.
    pub sizes: u32,
    /// The median of the errors, percent of the measured value.
    pub median_percent: f64,
    /// The largest of them, not below the median.
    pub worst_percent: f64,
    /// The size with the largest, one of the table's.
    pub worst_at: f64,
}

/// What one row more costs where no edge is crossed: the slope of a table's treads. Its interval comes from the rounds
/// themselves, so it cannot be had from the knots and theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaddingCost {
    /// Microseconds a row; negative where larger steps are faster. At most what the largest step takes, to either side.
    pub us_per_row: f64,
    /// Low end of its 95 % interval.
    pub low: f64,
    /// High end of it.
    pub high: f64,
    /// Rounds that it rests on.
    pub samples: u32,
    /// The largest size that it was found over, within the table.
    pub to_rows: f64,
}

/// One figure of a group as plain numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its key in the file; of attention the table's name with `_us` behind it.
    pub name: &'static str,
    /// Its value, or those of its table's knots.
    pub values: Vec<f64>,
    /// Where the knots are: one coordinate for each quantity of the table. Empty for a figure that is no table.
    pub knots: Vec<Vec<f64>>,
}

impl Figure {
    fn single(name: &'static str, value: f64) -> Self {
        Self { name, values: vec![value], knots: Vec::new() }
    }

    fn of_grid(name: &'static str, axes: &[&Axis], values: &[f64]) -> Self {
        let corner = vec![Vec::new()];
        let extended = |points: Vec<Vec<f64>>, axis: &&Axis| {
            let along = |point: Vec<f64>| axis.knots().iter().map(move |&knot| [&point[..], &[knot]].concat());
            points.into_iter().flat_map(along).collect()
        };
        Self { name, values: values.to_vec(), knots: axes.iter().fold(corner, extended) }
    }

    fn of_surface(name: &'static str, surface: &Surface) -> Self {
        match surface {
            Surface::Constant(us) => Self::single(name, *us),
            Surface::Grid(grid) => Self::of_grid(name, &grid.axes(), &grid.values),
        }
    }
}

impl AnyGroup<'_> {
    /// Half the width of the widest interval of its figures, percent of the figure; `None` where it states none. What cannot be
    /// told from nothing has no share: [`Self::indistinct`].
    pub fn widest_interval_percent(&self) -> Option<f64> {
        let stated = self.stated();
        let distinct = stated.iter().filter(|(.., interval)| !interval.holds_nothing());
        let widths = distinct.map(|(_, value, interval)| interval.half_width_percent(*value));
        widths.reduce(f64::max).or_else(|| (!stated.is_empty()).then_some(0.0))
    }

    /// The figures that cannot be told from nothing everywhere: those with an interval that begins at zero.
    pub fn indistinct(&self) -> Vec<&'static str> {
        let stated = self.stated().into_iter().filter(|(_, value, interval)| *value > 0.0 && interval.holds_nothing());
        let mut names: Vec<&'static str> = stated.map(|(name, ..)| name).collect();
        names.dedup();
        names
    }

    /// Every value that has an interval, by the name of its figure.
    fn stated(&self) -> Vec<(&'static str, f64, Interval)> {
        let Some(measured) = self.measured else { return Vec::new() };
        let of_figure = |figure: Figure| {
            let intervals = measured.of(figure.name).iter();
            figure.values.into_iter().zip(intervals).map(move |(value, interval)| (figure.name, value, *interval))
        };
        self.figures.figures().into_iter().flat_map(of_figure).collect()
    }
}

/// A group's figures as plain numbers.
pub trait Figures {
    /// Every figure, in file order. What is no quantity (a range, a switch) is no figure.
    fn figures(&self) -> Vec<Figure>;
}

impl Figures for Curve {
    fn figures(&self) -> Vec<Figure> {
        match self {
            Self::Table(table) => vec![Figure::of_grid("us", &[&table.axis], table.y())],
            Self::Line(line) => vec![Figure::single("us", line.y0), Figure::single("us_per_row", line.slope)],
            Self::Constant(us) => vec![Figure::single("us", *us)],
        }
    }
}

impl Figures for Attention {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::single("padded_request_us", self.padded_request_us)];
        figures.extend((self.shared_us > 0.0).then(|| Figure::single("shared_us", self.shared_us)));
        figures.push(Figure::of_surface("decode_us", &self.decode));
        figures.push(Figure::of_surface("prefill_us", &self.prefill));
        let grid = |mixed: &Mixed| Figure::of_grid("mixed_us", &mixed.axes.each_ref(), &mixed.values);
        figures.extend(self.mixed.as_ref().map(grid));
        figures
    }
}

/// Groups of single figures: the key in the file, and the value as a number.
macro_rules! single_figures {
    ($($group:ty { $($key:ident: $value:expr),* $(,)? })*) => {
        $(impl Figures for $group {
            fn figures(&self) -> Vec<Figure> {
                let value = |value: fn(&Self) -> f64| value(self);
                vec![$(Figure::single(stringify!($key), value($value))),*]
            }
        })*
    };
}

single_figures! {
    Memory { total_bytes: |memory| memory.total.0 as f64 }
    Launch { launch_us: |launch| launch.launch_us }
    Replay { fixed_us: |replay| replay.fixed_us, node_us: |replay| replay.node_us }
    Update { update_us: |update| update.update_us, node_us: |update| update.node_us }
    Pool {
        base_bytes: |pool| pool.base.0 as f64,
        bytes_per_row: |pool| pool.per_row.0 as f64,
        full_executable_bytes: |pool| pool.full_executable.0 as f64,
        piecewise_executable_bytes: |pool| pool.piecewise_executable.0 as f64,
    }
    Capture {
        full_s: |capture| capture.full_s,
        piecewise_s: |capture| capture.piecewise_s,
        first_extra_s: |capture| capture.first_extra_s,
    }
    Bandwidth { read_gb_per_s: |bandwidth| bandwidth.read_gb_per_s }
    Ops {
        eager: |ops| ops.eager.into(),
        compiled: |ops| ops.compiled.into(),
        graph_nodes: |ops| ops.graph_nodes.into(),
        attention_launches: |ops| ops.attention_launches.into(),
    }
    DispatchCost { eager_us: |dispatch| dispatch.eager_us, compiled_us: |dispatch| dispatch.compiled_us }
    Host {
        step_overhead_us: |host| host.step_overhead_us,
        per_request_us: |host| host.per_request_us,
        padding_bookkeeping_us: |host| host.padding_bookkeeping_us,
    }
    Activation {
        base_bytes: |activation| activation.base.0 as f64,
        bytes_per_row: |activation| activation.per_row.0 as f64,
    }
    Startup {
        trace_s: |startup| startup.trace_s,
        compile_cold_s: |startup| startup.compile_cold_s,
        compile_warm_s: |startup| startup.compile_warm_s,
        memory_profiling_s: |startup| startup.memory_profiling_s,
        graph_sample_s: |startup| startup.graph_sample_s,
        kernel_warm_up_s: |startup| startup.kernel_warm_up_s,
        sampler_warm_up_s: |startup| startup.sampler_warm_up_s,
        per_capture_s: |startup| startup.per_capture_s.unwrap_or(0.0),
        other_s: |startup| startup.other_s,
    }
}
