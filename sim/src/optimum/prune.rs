//! Sizes that need not be looked at.
//!
//! A size `r` can be left out if no step lies above the candidate `p` before it and at most `r`, and `p` is not dearer in any
//! term and takes no more of any resource. For take a ladder with the rung `r`. No step lies between, so every step on `r`
//! fits `p`. With `p` in the place of `r` (or, if `p` is a rung too, without `r`) each of them costs no more, no other step
//! changes its rung, the pool needs no more, and the ladder comes before the first one by the rule for ties. So no ladder
//! that is returned has such a rung. If `p` is left out for the same reason, the argument goes on from there; where nothing
//! is before `r`, no step runs on it at all.
//!
//! What is left are sizes that steps have, and sizes below which some cost is higher: the far side of a dip. Costs of a kind
//! of batch that has no steps are ignored.

use super::problem::{Batch, Candidate, Problem, Terms};

/// The same problem with only the candidates that can matter.
pub(super) fn prune(problem: &Problem) -> Problem {
    let has = |batch| problem.loads.iter().any(|load| load.batch == batch);
    let (has_decode, has_other) = (has(Batch::Decode), has(Batch::Other));
    let with_steps = |candidate: &Candidate| Candidate {
        decode: if has_decode { candidate.decode } else { Terms::default() },
        other: if has_other { candidate.other } else { Terms::default() },
        ..*candidate
    };
    let candidates: Vec<Candidate> = problem.candidates.iter().map(with_steps).collect();
    let (held, captures) = (problem.held(), &problem.captures);
    let matters = |&place: &usize| {
        let candidate = &candidates[place];
        if candidate.required || held[place + 1] > held[place] {
            return true;
        }
        let Some(before) = place.checked_sub(1) else { return false };
        let before = &candidates[before];
        !before.is_within(candidate) || !captures.of(before.size).is_within(captures.of(candidate.size))
    };
    let kept = (0..candidates.len()).filter(matters).map(|place| candidates[place]).collect();
    Problem { candidates: kept, ..problem.clone() }
}
