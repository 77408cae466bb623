//! Which rung below is the best one, for every rung that may come next.
//!
//! Places on an axis are rungs in the order of their costs; see `axes.rs`. A line is a rung that is already laid: its value
//! at a place is the cost with that rung below the rung of the place. Lines are inserted smallest rung first, and the
//! later of two lines is better from some place on, or nowhere, or everywhere. So where a new line is better than all
//! earlier ones is the end of the axis from some place on, and the envelope is a stack of intervals. On a tie the earlier
//! line stays: the smaller rung.

/// The best line at every place of an axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    /// Lines, each with the place from which on it is the best; places ascend.
    best: Vec<(u32, u32)>,
}

impl Envelope {
    /// Forgets all lines.
    pub(super) fn clear(&mut self) {
        self.best.clear();
    }

    /// Adds a line later than all before. `beats(other, place)`: it is better there than the line `other`.
    pub(super) fn insert(&mut self, line: u32, places: u32, beats: impl Fn(u32, u32) -> bool) {
        while let Some(&(last, start)) = self.best.last() {
            if beats(last, start) {
                self.best.pop();
                continue;
            }
            // Most lines are nowhere the best: that is seen at the end of the axis.
            let (mut worse, mut better) = (start, places - 1);
            if worse == better || !beats(last, better) {
                return;
            }
            while better - worse > 1 {
                let middle = worse + (better - worse) / 2;
                if beats(last, middle) { better = middle } else { worse = middle }
            }
            self.best.push((line, better));
            return;
        }
        self.best.push((line, 0));
    }

    /// The best line at a place; `None` if there is no line.
    pub(super) fn at(&self, place: u32) -> Option<u32> {
        let after = self.best.partition_point(|&(_, start)| start <= place);
        after.checked_sub(1).map(|last| self.best[last].0)
    }
}
