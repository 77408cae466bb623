//! The points of a sweep: all combinations of the values, or some of them drawn at random.

use std::collections::BTreeSet;

use rand::RngExt;
use toml::{Table, Value};

use super::axis::Axis;
use super::error::VaryError;
use super::key::Key;
use crate::limits::SWEEP_POINTS_MAX;
use crate::traffic::Streams;

/// Keys with their values, and which combinations of them are points.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    axes: Vec<(Key, Vec<Value>)>,
    cells: Cells,
}

/// Points drawn from the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many.
    pub points: u64,
    /// Seed of the draw.
    pub seed: u64,
}

/// Cells of the grid are numbered with the last axis varying fastest.
#[derive(Clone, Debug, PartialEq)]
enum Cells {
    /// All, so many.
    All(u64),
    /// These, ascending.
    Drawn(Vec<u64>),
}

impl Grid {
    /// The points over these axes, keys resolved in `scenario`.
    ///
    /// # Errors
    /// A key that is unknown, may not vary or is given twice, too many points, or a sample larger than the grid.
    pub fn new(axes: Vec<Axis>, scenario: &Table, sample: Option<Sample>) -> Result<Self, VaryError> {
        let mut resolved: Vec<(Key, Vec<Value>)> = Vec::with_capacity(axes.len());
        for Axis { key, values } in axes {
            let key = Key::resolve(&key, scenario)?;
            if let Some((earlier, _)) = resolved.iter().find(|(earlier, _)| earlier.overlaps(&key)) {
                let message = format!("--vary {key}: {earlier} is varied already, and one would replace the other");
                return Err(VaryError::new(message, "give each key once, with all its values"));
            }
            resolved.push((key, values));
        }
        let cells = resolved.iter().try_fold(1_u64, |cells, (_, values)| cells.checked_mul(values.len() as u64));
        let cells = match (cells, sample) {
            (Some(cells), None) if cells <= SWEEP_POINTS_MAX => Cells::All(cells),
            (Some(cells), Some(sample)) if sample.points <= cells => Cells::Drawn(draw(cells, sample)),
            (Some(cells), Some(sample)) => {
                let all = if cells == 1 { "1 point".to_owned() } else { format!("{cells} points") };
                let message = format!("--sample {}: the grid has {all}", sample.points);
                return Err(VaryError::new(message, "leave --sample out to run them all"));
            }
            (cells, _) => {
                let count = cells.map_or_else(|| "more than 2^64".to_owned(), |cells| cells.to_string());
                let message = format!("the grid has {count} points; a sweep has at most {SWEEP_POINTS_MAX}");
                return Err(VaryError::new(message, "vary fewer keys or values, or draw some points with --sample N"));
            }
        };
        Ok(Self { axes: resolved, cells })
    }

    /// The keys with their values.
    #[must_use]
    pub fn axes(&self) -> &[(Key, Vec<Value>)] {
        &self.axes
    }

    /// How many points there are; at least one.
    #[must_use]
    pub fn points(&self) -> u64 {
        match &self.cells {
            Cells::All(points) => *points,
            Cells::Drawn(cells) => cells.len() as u64,
        }
    }

    /// What the point of that number sets, in the order of the axes.
    ///
    /// # Panics
    /// If there is no such point.
    #[must_use]
    pub fn settings(&self, point: u64) -> Vec<(&Key, &Value)> {
        let mut cell = match &self.cells {
            Cells::All(points) => {
                assert!(point < *points, "the grid has {points} points");
                point
            }
            Cells::Drawn(cells) => cells[point as usize],
        };
        let mut settings: Vec<(&Key, &Value)> = Vec::with_capacity(self.axes.len());
        for (key, values) in self.axes.iter().rev() {
            let count = values.len() as u64;
            settings.push((key, &values[(cell % count) as usize]));
            cell /= count;
        }
        settings.reverse();
        settings
    }

    /// The first value of every axis but one, and each value of that one in turn, for all axes: settings that between them
    /// hold every value.
    #[must_use]
    pub fn each_value(&self) -> Vec<Vec<(&Key, &Value)>> {
        let first: Vec<(&Key, &Value)> = self.axes.iter().map(|(key, values)| (key, &values[0])).collect();
        let mut all = Vec::new();
        for (place, (_, values)) in self.axes.iter().enumerate() {
            for value in values {
                let mut settings = first.clone();
                settings[place].1 = value;
                all.push(settings);
            }
        }
        all
    }
}

/// Cells drawn one by one, each as likely as any other of those left (Floyd's algorithm: one draw for each).
fn draw(cells: u64, sample: Sample) -> Vec<u64> {
    let mut random = Streams::new(sample.seed).stream("sweep");
    let mut drawn = BTreeSet::new();
    for last in cells - sample.points..cells {
        let cell = random.random_range(0..=last);
        if !drawn.insert(cell) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Table {
        toml::from_str("[server.vllm]\n[traffic.arrivals.poisson]\nrate = 1").expect("TOML")
    }

    fn grid(axes: &[&str], sample: Option<Sample>) -> Result<Grid, VaryError> {
        Grid::new(axes.iter().map(|axis| axis.parse().expect("an axis")).collect(), &scenario(), sample)
    }

    fn shown(settings: &[(&Key, &Value)]) -> String {
        settings.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_last_axis_varies_fastest() {
        let grid = grid(&["rate=1,2", "max_num_seqs=8,16,32"], None).expect("a grid");
        let points: Vec<String> = (0..grid.points()).map(|point| shown(&grid.settings(point))).collect();
        assert_eq!(points, ["1 8", "1 16", "1 32", "2 8", "2 16", "2 32"]);
        let values: Vec<String> = grid.each_value().iter().map(|settings| shown(settings)).collect();
        assert_eq!(values, ["1 8", "2 8", "1 8", "1 16", "1 32"]);
    }

    #[test]
    fn a_sample_is_a_part_of_the_grid_in_its_order_and_every_cell_is_as_likely() {
        let axes = ["rate=1,2,3,4", "max_num_seqs=8,16,32"];
        let mut drawn = [0_u32; 12];
        for seed in 0..4_000 {
            let Cells::Drawn(cells) = grid(&axes, Some(Sample { points: 5, seed })).expect("a grid").cells else {
                panic!("a sample")
            };
            assert_eq!(cells.len(), 5);
            assert!(cells.is_sorted_by(|one, next| one < next));
            for cell in cells {
                drawn[cell as usize] += 1;
            }
        }
        // 4,000 x 5 / 12 each, with a standard deviation of 31.
        assert!(drawn.iter().all(|&count| count.abs_diff(1_667) < 160), "{drawn:?}");
        let all = grid(&axes, Some(Sample { points: 12, seed: 3 })).expect("a grid");
        assert_eq!(all.settings(7), grid(&axes, None).expect("a grid").settings(7), "all of them are the grid");
    }

    #[test]
    fn what_cannot_be_a_grid_is_refused() {
        let refused = |axes: &[&str], sample| grid(axes, sample).expect_err("refused").to_string();
        assert_eq!(
            refused(&["rate=1", "poisson={ rate = 2 }"], None),
            "--vary traffic.arrivals.poisson: traffic.arrivals.poisson.rate is varied already, and one would replace the other"
        );
        assert_eq!(refused(&["rate=1,2"], Some(Sample { points: 3, seed: 0 })), "--sample 3: the grid has 2 points");
        let values = |key: &str| {
            let values: Vec<String> = (1..=400).map(|value| value.to_string()).collect();
            format!("{key}={}", values.join(","))
        };
        let axes = [values("rate"), values("max_num_seqs")];
        let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
        assert_eq!(refused(&axes, None), "the grid has 160000 points; a sweep has at most 100000");
        assert_eq!(grid(&axes, Some(Sample { points: 9, seed: 0 })).expect("drawn").points(), 9);
    }
}
