//! The padding staircase of the profile that priced a run.

/// Step time over rows, and where one row more costs a jump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Staircase {
    /// Knots of the profile's dense table, ascending: rows, and microseconds on the device.
    pub knots: Vec<[f64; 2]>,
    /// Edges that stand out of the table's errors, ascending.
    pub edges: Vec<StairEdge>,
}

/// One edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StairEdge {
    /// The last knot before it, rows.
    pub below: f64,
    /// The first knot after it, rows.
    pub above: f64,
    /// What crossing it costs, us; negative where more rows take less time.
    pub jump_us: f64,
    /// The same in percent of the time before it.
    pub percent: f64,
}
