//! What each rung of a ladder did: steps on it, rows padded on it, milliseconds won or lost.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{EXACT, LOST, MUTED, PADDED, WON};
use super::panel::Panel;
use super::{DrawError, Svg, WIDTH, canvas};

/// Most bars: of more rungs, neighbours share one.
const BARS_MOST: usize = 90;
/// Units of the three parts, one below the other.
const PARTS: [i32; 3] = [170, 120, 180];

/// One rung.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::page) struct RungBar {
    /// The captured size, tokens.
    pub(in crate::page) size: u32,
    /// Steps without padding.
    pub(in crate::page) exact: f64,
    /// Steps with padding.
    pub(in crate::page) padded: f64,
    /// Real rows of all of them.
    pub(in crate::page) real_rows: f64,
    /// Padded rows of all of them.
    pub(in crate::page) padded_rows: f64,
    /// Milliseconds that replay won, negative: lost.
    pub(in crate::page) saved_ms: f64,
}

/// Neighbours put together until the bars are few, and how many rungs a bar stands for at most.
fn grouped(rungs: &[RungBar]) -> (Vec<RungBar>, usize) {
    let share = rungs.len().div_ceil(BARS_MOST).max(1);
    (rungs.chunks(share).map(together).collect(), share)
}

/// Rungs that share a bar, under the size of the largest.
fn together(rungs: &[RungBar]) -> RungBar {
    let mut sum = rungs[0].clone();
    for rung in &rungs[1..] {
        sum.exact += rung.exact;
        sum.padded += rung.padded;
        sum.real_rows += rung.real_rows;
        sum.padded_rows += rung.padded_rows;
        sum.saved_ms += rung.saved_ms;
        sum.size = rung.size;
    }
    sum
}

/// Draws rungs of one kind, ascending.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn ladder(rungs: &[RungBar]) -> io::Result<Svg> {
    let (bars, share) = grouped(rungs);
    let entries = [
        Entry::fill(EXACT, "exact hits"),
        Entry::fill(PADDED, "padded hits"),
        Entry::fill(WON, "won by replay"),
        Entry::fill(LOST, "lost by replay"),
    ];
    let above = legend::height(&entries);
    let labels: Vec<String> = bars.iter().map(|bar| bar.size.to_string()).collect();
    let name = match share {
        1 => "captured size, tokens".to_owned(),
        _ => format!(
            "captured size, tokens (a bar stands for up to {share} neighbouring rungs, labelled with the largest)"
        ),
    };
    let x = Axis::categories(&name, &labels, f64::from(WIDTH) - 90.0);
    canvas(above + PARTS.iter().sum::<i32>(), |area| {
        legend::draw(area, &entries)?;
        let (_, rest) = area.split_vertically(above);
        let (steps, rest) = rest.split_vertically(PARTS[0]);
        let (waste, saved) = rest.split_vertically(PARTS[1]);
        let most = bars.iter().map(|bar| bar.exact + bar.padded).fold(0.0, f64::max);
        let mut panel = Panel::new(&steps, x.bare(), Axis::from_zero("steps on the rung", most, 4))?;
        each(&bars, |across, bar| {
            panel.bar(across, [0.0, bar.exact], EXACT)?;
            panel.bar(across, [bar.exact, bar.exact + bar.padded], PADDED)
        })?;
        let ratio = |bar: &RungBar| if bar.real_rows > 0.0 { 100.0 * bar.padded_rows / bar.real_rows } else { 0.0 };
        let most = bars.iter().map(ratio).fold(0.0, f64::max);
        let mut panel = Panel::new(&waste, x.bare(), Axis::from_zero("padded / real rows, %", most, 3))?;
        each(&bars, |across, bar| panel.bar(across, [0.0, ratio(bar)], PADDED))?;
        let span = bars.iter().fold([0.0_f64; 2], |[low, high], bar| [low.min(bar.saved_ms), high.max(bar.saved_ms)]);
        let mut panel = Panel::new(&saved, x.clone(), Axis::linear("saved by replay, ms (below zero: lost)", span, 4))?;
        each(&bars, |across, bar| panel.bar(across, [0.0, bar.saved_ms], if bar.saved_ms < 0.0 { LOST } else { WON }))?;
        panel.level(0.0, MUTED, 1)
    })
}

fn each(bars: &[RungBar], mut draw: impl FnMut([f64; 2], &RungBar) -> Result<(), DrawError>) -> Result<(), DrawError> {
    bars.iter().enumerate().try_for_each(|(place, bar)| {
        let left = place as f64;
        draw([left + 0.12, left + 0.88], bar)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rungs(count: u32) -> Vec<RungBar> {
        let rung = |size| RungBar { size, exact: 1.0, padded: 2.0, real_rows: 10.0, padded_rows: 5.0, saved_ms: -1.0 };
        (1..=count).map(rung).collect()
    }

    #[test]
    fn many_rungs_share_bars_and_none_is_lost() {
        let (bars, share) = grouped(&rungs(531));
        assert!(bars.len() <= BARS_MOST && share == 6, "{} bars of {share}", bars.len());
        let steps: f64 = bars.iter().map(|bar| bar.exact + bar.padded).sum();
        assert!((steps - 3.0 * 531.0).abs() < 1e-9);
        assert_eq!(bars.last().map(|bar| bar.size), Some(531));
        let (bars, share) = grouped(&rungs(35));
        assert_eq!((bars.len(), share), (35, 1));
        assert_eq!(grouped(&[]).0, []);
    }
}
