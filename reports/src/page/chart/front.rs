//! Alternatives by two quantities, less of the one and more of the other being better, and the front of those that none beats.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{MUTED, series};
use super::panel::Panel;
use super::{Svg, canvas};

/// Units of the plot.
const HEIGHT: i32 = 300;
/// Units that the centres of two letters lie apart at least.
const APART: f64 = 19.0;

/// One alternative.
#[derive(Clone, Debug)]
pub(in crate::page) struct Alternative {
    /// Its letter on the page.
    pub(in crate::page) letter: String,
    /// Its name.
    pub(in crate::page) name: String,
    /// Its place among all.
    pub(in crate::page) place: usize,
    /// What it costs.
    pub(in crate::page) price: f64,
    /// What it gives.
    pub(in crate::page) gain: f64,
    /// The interval of that, where there is one.
    pub(in crate::page) interval: Option<[f64; 2]>,
}

/// Whether no other alternative costs no more and gives no less, and one of both strictly.
pub(in crate::page) fn is_on_front(alternatives: &[Alternative], this: &Alternative) -> bool {
    !alternatives.iter().any(|other| {
        other.price <= this.price && other.gain >= this.gain && (other.price < this.price || other.gain > this.gain)
    })
}

/// Draws the alternatives. `price` and `gain` name the axes, with their units.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn front(price: &str, gain: &str, alternatives: &[Alternative]) -> io::Result<Svg> {
    let mut entries: Vec<Entry> =
        alternatives.iter().map(|one| Entry::letter(&one.letter, series(one.place), &one.name)).collect();
    entries.push(Entry::line(MUTED, "front"));
    let above = legend::height(&entries);
    let most = alternatives.iter().map(|one| one.price).fold(0.0, f64::max);
    let ends = |one: &Alternative| one.interval.unwrap_or([one.gain; 2]);
    let low = alternatives.iter().map(|one| ends(one)[0]).fold(f64::INFINITY, f64::min);
    let high = alternatives.iter().map(|one| ends(one)[1]).fold(f64::NEG_INFINITY, f64::max);
    // No magnifying glass: a range of less than a tenth of a percent would show noise as mountains.
    let span = (high - low).max(high.abs() * 1e-3);
    let middle = f64::midpoint(low, high);
    // Nothing is served less than not at all.
    let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
    let y = Axis::near(gain, [(middle - 0.6 * span).max(floor), middle + 0.6 * span], 4);
    canvas(above + HEIGHT, |area| {
        legend::draw(area, &entries)?;
        let (_, plot) = area.split_vertically(above);
        let x = Axis::from_zero(price, most * 1.03, 8);
        let mut panel = Panel::new(&plot, x, y)?;
        let mut best: Vec<&Alternative> = alternatives.iter().filter(|one| is_on_front(alternatives, one)).collect();
        best.sort_by(|a, b| a.price.total_cmp(&b.price));
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for one in best {
            if let Some(&(_, before)) = steps.last() {
                steps.push((one.price, before));
            }
            steps.push((one.price, one.gain));
        }
        if steps.len() > 1 {
            panel.line(&steps, MUTED, 2)?;
        }
        for one in alternatives {
            if let Some([low, high]) = one.interval {
                panel.line(&[(one.price, low), (one.price, high)], MUTED, 1)?;
            }
        }
        // A letter that would lie on another one moves aside, and a line leads back to its place; without room there is a dot.
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let mut lettered = Vec::with_capacity(alternatives.len());
        // Where there is no room for all, those on the front have theirs.
        let (first, rest): (Vec<_>, Vec<_>) = alternatives.iter().partition(|one| is_on_front(alternatives, one));
        for one in first.into_iter().chain(rest) {
            let (x, y) = panel.spot(one.price, one.gain);
            let is_free = |&(right, down): &(f64, f64)| {
                let is_inside = (right, down) == (0.0, 0.0) || panel.has_room(x + right, y + down, APART / 2.0);
                is_inside && !taken.iter().any(|(l, t)| (l - x - right).hypot(t - y - down) < APART)
            };
            match aside().find(is_free) {
                Some(moved) => {
                    taken.push((x + moved.0, y + moved.1));
                    lettered.push((one, (moved.0 as i32, moved.1 as i32)));
                }
                None => panel.dot(one.price, one.gain, series(one.place))?,
            }
        }
        for (one, moved) in lettered.iter().filter(|(_, moved)| *moved != (0, 0)) {
            panel.leader((one.price, one.gain), *moved, MUTED)?;
        }
        lettered.into_iter().try_for_each(|(one, moved)| {
            panel.letter_moved((one.price, one.gain), moved, &one.letter, series(one.place))
        })
    })
}

/// Where a letter may lie beside its place, the nearest first.
fn aside() -> impl Iterator<Item = (f64, f64)> {
    let rings = (1..=6).flat_map(|ring| {
        let far = APART * f64::from(ring);
        [(far, 0.0), (far, -far), (0.0, -far), (-far, -far), (-far, 0.0), (far, far), (0.0, far), (-far, far)]
    });
    std::iter::once((0.0, 0.0)).chain(rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(price: f64, gain: f64) -> Alternative {
        Alternative { letter: "A".into(), name: "a".into(), place: 0, price, gain, interval: None }
    }

    #[test]
    fn many_letters_stay_in_the_plot() {
        let many: Vec<Alternative> = (0..200).map(|place| Alternative { place, ..at(5.0, 2.0) }).collect();
        let svg = front("price", "gain", &many).expect("drawn");
        let of = |circle: &str, name: &str| -> f64 {
            let rest = circle.split_once(&format!("{name}=\"")).expect("an attribute").1;
            rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let letters: Vec<&str> = svg.content.split("<circle ").skip(1).filter(|circle| of(circle, "r") > 8.0).collect();
        assert!((100..400).contains(&letters.len()), "{}", letters.len());
        for circle in letters {
            let (x, y) = (of(circle, "cx"), of(circle, "cy"));
            assert!((0.0..=960.0).contains(&x) && (0.0..=f64::from(svg.height)).contains(&y), "{circle}");
        }
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let all = [at(0.0, 1.0), at(1.0, 2.0), at(2.0, 1.5), at(1.0, 2.0), at(3.0, 2.0)];
        let on: Vec<bool> = all.iter().map(|one| is_on_front(&all, one)).collect();
        assert_eq!(on, [true, true, false, true, false], "equals do not beat each other");
    }
}
