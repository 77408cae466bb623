//! The calibration page: what a profile holds, and how far it can be believed.

use std::io;

use super::Staircase;
use super::chart::{CapturedRung, captured_rungs, stairs};
use super::document::{Block, Figure, Part, Section, Table};
use super::run::groups;
use crate::text::number;
use crate::{GroupReport, Warning};

const BYTES_PER_MIB: f64 = (1_u64 << 20) as f64;

/// A profile as its page shows it.
#[derive(Clone, Debug, Default)]
pub struct ProfilePage {
    /// Its name.
    pub name: String,
    /// What it is about, in lines of a name and a text.
    pub facts: Vec<(String, String)>,
    /// How it came to be, in a sentence.
    pub standing: String,
    /// Dense work over rows; `None` where it is no table.
    pub dense: Option<ProfileStairs>,
    /// LM head and sampler over sequences; `None` where it is no table.
    pub head: Option<ProfileStairs>,
    /// Host costs of launches, replays and updates, and of a step of the model.
    pub launches: Vec<HostCost>,
    /// Captured sizes by mode, where calibrate measured the profile.
    pub rungs: Vec<ModeRungs>,
    /// Memory and time that graphs take by the profile, in lines of a name and a text.
    pub graphs: Vec<(String, String)>,
    /// Attention on a few knots.
    pub attention: Vec<AttentionGrid>,
    /// What else is said of attention.
    pub attention_notes: Vec<String>,
    /// Provenance of every group.
    pub groups: Vec<GroupReport>,
    /// What makes the measurement suspect.
    pub warnings: Vec<Warning>,
    /// What was not measured, and why.
    pub not_measured: Vec<(String, String)>,
    /// All of it as `calibrate show` writes it.
    pub whole: String,
    /// SHA-256 of the profile, lower-case hexadecimal.
    pub sha256: String,
}

/// A table of the profile as stairs.
#[derive(Clone, Debug, Default)]
pub struct ProfileStairs {
    /// Knots and edges.
    pub stairs: Staircase,
    /// Captured sizes.
    pub rungs: Vec<f64>,
    /// Treads: first and last row, us at the first, us a row.
    pub treads: Vec<[f64; 4]>,
    /// What a padded row costs between edges, in words.
    pub note: String,
}

/// One cost of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCost {
    /// What costs it.
    pub what: String,
    /// How much, us.
    pub us: f64,
    /// Its interval, us, where one is stated.
    pub interval: Option<[f64; 2]>,
    /// What it is made of, or where it is from.
    pub note: String,
}

/// The captured sizes of one mode.
#[derive(Clone, Debug, Default)]
pub struct ModeRungs {
    /// `FULL` or `PIECEWISE`.
    pub mode: String,
    /// The sizes, ascending.
    pub rungs: Vec<MeasuredRung>,
}

/// What one captured size took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredRung {
    /// Rows.
    pub rows: f64,
    /// Kernel nodes.
    pub nodes: f64,
    /// Milliseconds of recording.
    pub capture_ms: f64,
    /// Milliseconds of making it executable.
    pub instantiate_ms: f64,
    /// Bytes by which the shared pool grew.
    pub pool_growth_bytes: f64,
    /// Host microseconds of a replay.
    pub replay_host_us: f64,
    /// Device microseconds of a replay.
    pub replay_device_us: f64,
    /// Host microseconds of the same step launched kernel by kernel.
    pub eager_host_us: f64,
    /// Device microseconds of the same step launched kernel by kernel.
    pub eager_device_us: f64,
}

/// Attention of one kind of step on a few knots.
#[derive(Clone, Debug, Default)]
pub struct AttentionGrid {
    /// `decode` or `prefill`, and what its lines count.
    pub name: String,
    /// What a line stands for.
    pub lines: Vec<f64>,
    /// Tokens of context of each column.
    pub contexts: Vec<f64>,
    /// Milliseconds, line by line.
    pub ms: Vec<Vec<f64>>,
}

impl ProfilePage {
    /// The profile as a part of a page.
    ///
    /// # Errors
    /// That of a drawing, which has no reason to fail.
    pub fn part(&self) -> io::Result<Part> {
        let mut sections = vec![
            Section::new("Dense work over rows: the padding staircase", self.dense()?),
            Section::new("LM head and sampler over sequences", self.head()?),
            Section::brief("Launches, replays and updates", vec![Block::Table(self.launches())]),
            Section::new("Rungs: memory and time of captures", self.rungs()?),
            Section::new("Attention", self.attention()),
            Section::brief("Where the figures come from", vec![Block::Table(groups(&self.groups))]),
            Section::brief("Warnings", vec![Block::Warnings(self.warnings.clone())]),
        ];
        if !self.not_measured.is_empty() {
            let mut table = Table::of_words("What was not measured", &["what", "why, and what stands in its place"]);
            self.not_measured.iter().for_each(|(what, why)| table.row([what.clone(), why.clone()]));
            sections.push(Section::brief("Not measured", vec![Block::Table(table)]));
        }
        let whole =
            Block::Folded("The profile as calibrate show writes it".to_owned(), vec![Block::Lines(self.whole.clone())]);
        let mut table = Table::of_words("What the page is of", &["", "value"]);
        table.row(["profile, SHA-256".to_owned(), self.sha256.clone()]);
        table.row(["Rungwise".to_owned(), env!("CARGO_PKG_VERSION").to_owned()]);
        sections.push(Section::new("All figures", vec![whole, Block::Table(table)]));
        Ok(Part {
            title: format!("Cost profile {}", self.name),
            verdict: self.standing.clone(),
            facts: self.facts.clone(),
            sections,
        })
    }

    fn dense(&self) -> io::Result<Vec<Block>> {
        let Some(dense) = &self.dense else {
            return Ok(vec![Block::Text(
                "Dense work is not a table in this profile: there is no staircase.".to_owned(),
            )]);
        };
        let mut blocks = vec![Block::Figure(Box::new(figure(dense, "rows", "Dense work of a step on the device.")?))];
        let mut table = Table::new("Treads", &["rows", "ms at the first", "us a row"]);
        for [first, last, us, slope_us] in &dense.treads {
            let rows = if first < last { format!("{first:.0} to {last:.0}") } else { format!("{first:.0}") };
            let slope = if first < last { number::fixed(*slope_us, 2) } else { number::UNDEFINED.to_owned() };
            table.row([rows, number::fixed(us / 1e3, 3), slope]);
        }
        if !table.rows.is_empty() {
            blocks.push(Block::Table(table));
        }
        if !dense.note.is_empty() {
            blocks.push(Block::Text(dense.note.clone()));
        }
        Ok(blocks)
    }

    fn head(&self) -> io::Result<Vec<Block>> {
        Ok(match &self.head {
            None => vec![Block::Text("It is not a table in this profile.".to_owned())],
            Some(head) => {
                vec![Block::Figure(Box::new(figure(head, "sequences", "LM head and sampler on the device.")?))]
            }
        })
    }

    fn launches(&self) -> Table {
        let mut table = Table::of_words("Host time", &["what", "us", "95 % interval, us", "made of"]);
        for cost in &self.launches {
            let interval = cost.interval.map(|[low, high]| format!("{} to {}", micro(low), micro(high)));
            table.row([cost.what.clone(), micro(cost.us), interval.unwrap_or_default(), cost.note.clone()]);
        }
        table
    }

    fn rungs(&self) -> io::Result<Vec<Block>> {
        let mut table = Table::of_words("What graphs take by this profile", &["", "value"]);
        self.graphs.iter().for_each(|(name, text)| table.row([name.clone(), text.clone()]));
        let mut blocks = vec![Block::Table(table)];
        if self.rungs.is_empty() {
            blocks
                .push(Block::Text("No rung was measured one by one: calibrate did not make this profile.".to_owned()));
        }
        for mode in &self.rungs {
            blocks.push(Block::Figure(Box::new(mode.figure()?)));
        }
        Ok(blocks)
    }

    fn attention(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.attention.iter().map(|grid| Block::Table(grid.table())).collect();
        blocks.extend(self.attention_notes.iter().cloned().map(Block::Text));
        if blocks.is_empty() {
            blocks.push(Block::Text("The profile has no attention figures.".to_owned()));
        }
        blocks
    }
}

/// A staircase over `quantity`.
fn figure(of: &ProfileStairs, quantity: &str, caption: &str) -> io::Result<Figure> {
    let edges: Vec<f64> = of.stairs.edges.iter().map(|edge| edge.below).collect();
    let edges_in_words = match edges.len() {
        0 => "No edge stands out of its errors.".to_owned(),
        1 => format!("One edge is proven, after {:.0} {quantity}.", edges[0]),
        count => format!("{count} edges are proven, the first after {:.0} {quantity}.", edges[0]),
    };
    let mut table = Table::new("Knots of the table", &[quantity, "ms", "edge after it, us", "edge, %"]);
    for [at, us] in &of.stairs.knots {
        let edge = of.stairs.edges.iter().find(|edge| (edge.below - at).abs() < 0.5);
        table.row([
            number::fixed(*at, 0),
            number::fixed(us / 1e3, 4),
            edge.map_or_else(String::new, |edge| number::fixed(edge.jump_us, 1)),
            edge.map_or_else(String::new, |edge| number::fixed(edge.percent, 1)),
        ]);
    }
    Ok(Figure {
        caption: caption.to_owned(),
        description: format!("With as much room for each doubling; dots are the sizes of the table. {edges_in_words}"),
        svg: stairs(quantity, &of.stairs.knots, &edges, &of.rungs)?,
        table,
    })
}

impl ModeRungs {
    fn figure(&self) -> io::Result<Figure> {
        let bars: Vec<CapturedRung> = self
            .rungs
            .iter()
            .map(|rung| CapturedRung {
                rows: rung.rows,
                capture_ms: rung.capture_ms,
                instantiate_ms: rung.instantiate_ms,
                pool_mib: rung.pool_growth_bytes / BYTES_PER_MIB,
            })
            .collect();
        let columns = [
            "rows",
            "nodes",
            "capture, ms",
            "made executable, ms",
            "pool growth, MiB",
            "replay, host us",
            "replay, device us",
            "eager, host us",
            "eager, device us",
        ];
        let mut table = Table::new(format!("{} rungs as measured", self.mode), &columns);
        for rung in &self.rungs {
            table.row([
                number::fixed(rung.rows, 0),
                number::fixed(rung.nodes, 0),
                number::fixed(rung.capture_ms, 2),
                number::fixed(rung.instantiate_ms, 2),
                number::fixed(rung.pool_growth_bytes / BYTES_PER_MIB, 1),
                number::fixed(rung.replay_host_us, 1),
                number::fixed(rung.replay_device_us, 1),
                number::fixed(rung.eager_host_us, 1),
                number::fixed(rung.eager_device_us, 1),
            ]);
        }
        Ok(Figure {
            caption: format!("{} rungs.", self.mode),
            description:
                "Time of each capture, and the memory by which the shared pool grew; the largest is captured first."
                    .to_owned(),
            svg: captured_rungs(&bars)?,
            table,
        })
    }
}

impl AttentionGrid {
    fn table(&self) -> Table {
        let mut table = Table::new(format!("{}, by tokens of context: ms on the device, all layers", self.name), &[""]);
        table.columns.extend(self.contexts.iter().map(|context| number::fixed(*context, 0)));
        for (line, ms) in self.lines.iter().zip(&self.ms) {
            table.row(std::iter::once(number::fixed(*line, 0)).chain(ms.iter().map(|ms| number::fixed(*ms, 3))));
        }
        table
    }
}

fn micro(us: f64) -> String {
    let decimals = match us.abs() {
        x if x >= 1_000.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 0.1 => 3,
        _ => 5,
    };
    number::fixed(us, decimals)
}
