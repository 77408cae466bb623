use reports::StepRecord;

use super::*;
use crate::watch::samples::{header, request, step};

const SIZES: [u32; 4] = [8, 16, 32, 64];

fn lane(name: &str) -> Lane {
    Lane::new(&header(name, &SIZES), None, true)
}

fn state(names: &[&str]) -> State {
    State::new("chunked · seed 7", names.iter().map(|name| lane(name)).collect())
}

fn told(state: &mut State, lane: usize, number: u64, rows: u32, rung: Option<u32>) {
    state.apply(lane, Fact::Step(Box::new(step(number, number * 20_000_000, rows, rung))));
}

#[test]
fn a_lane_counts_what_it_is_told() {
    let mut lane = lane("one");
    for (number, (rows, rung)) in (0..).zip([(8, Some(8)), (13, Some(16)), (16, Some(16)), (90, None)]) {
        lane.apply(Fact::Step(Box::new(step(number, number * 20_000_000, rows, rung))));
    }
    lane.apply(Fact::Request(request(0, 0.01, true)));
    lane.apply(Fact::Request(request(1, 0.02, false)));
    let tallies = &lane.tallies;
    assert_eq!((tallies.steps, tallies.fallback_steps()), (4, 1));
    let sixteen = &tallies.rungs[&16];
    assert_eq!((sixteen.steps, sixteen.exact_steps, sixteen.real_rows, sixteen.padded_rows), (2, 1, 29, 3));
    assert_eq!(sixteen.saved_ms(), Some(2.0 * 0.024));
    assert_eq!(sixteen.batches.iter().map(|(&rows, &steps)| (rows, steps)).collect::<Vec<_>>(), [(13, 1), (16, 1)]);
    assert_eq!((lane.firing(), lane.running(0), lane.waiting(0)), (None, 90, 9));
    assert_eq!(lane.kv_blocks(0), (5_400, 27_664));
    assert_eq!((lane.service.finished, lane.service.good, lane.clock_ns), (2, 1, 2_020_000_000));
    assert_eq!(lane.service.goodput(lane.clock_ns), Some(1.0 / 2.02));
}

#[test]
fn what_a_log_does_not_say_is_not_made_up() {
    let mut lane = lane("one");
    for (number, saved_ns) in [(0, Some(5)), (1, None)] {
        lane.apply(Fact::Step(Box::new(StepRecord { saved_ns, ..step(number, number, 8, Some(8)) })));
    }
    assert_eq!(lane.tallies.rungs[&8].saved_ms(), None);
    assert_eq!(lane.service.goodput(10), None, "nobody was judged");
    let mut unknown = header("one", &SIZES);
    unknown.ladders.clear();
    let ceiling = Ceiling { phase: "all".into(), size: 64, of_requests: false };
    assert_eq!(Lane::new(&unknown, None, false).ceilings, [ceiling], "a log of an earlier version");
}

#[test]
fn ranks_add_up_and_change_rungs_on_their_own() {
    let mut lane = lane("one");
    let of_rank = |rank, rows, rung| Fact::Step(Box::new(StepRecord { rank, ..step(0, 0, rows, Some(rung)) }));
    let seen: Vec<bool> = [(0, 8, 8), (1, 16, 16), (0, 7, 8), (1, 8, 8)]
        .map(|(rank, rows, rung)| lane.apply(of_rank(rank, rows, rung)).expect("a step").rung_change)
        .to_vec();
    assert_eq!(seen, [false, false, false, true]);
    assert_eq!((lane.running(0), lane.kv_blocks(0).1), (15, 2 * 27_664));
}

/// Ranks take every step together: one that was not in the last step has nothing to do, and neither has any if the next step
/// is yet to begin.
#[test]
fn a_rank_without_a_step_is_idle() {
    let mut lane = lane("one");
    let mut told = |rank, number: u64| {
        lane.apply(Fact::Step(Box::new(StepRecord { rank, ..step(number, number * 20_000_000, 10, Some(16)) })));
        (lane.running(0), lane.waiting(0), lane.kv_blocks(0), lane.idle_ranks(0))
    };
    let pool = 27_664;
    assert_eq!(told(0, 0), (10, 1, (600, pool), 0));
    assert_eq!(told(1, 0), (20, 2, (1_200, 2 * pool), 0));
    assert_eq!(told(0, 1), (20, 2, (1_200, 2 * pool), 0), "the other one is told of the same step next");
    assert_eq!(told(0, 2), (10, 1, (600, 2 * pool), 1));
    assert_eq!(lane.history.total().waiting_max, 2);

    lane.next_step_ns = Some(500_000_000);
    assert_eq!((lane.running(499_999_999), lane.idle_ranks(499_999_999)), (0, 2));
    assert_eq!((lane.running(500_000_000), lane.idle_ranks(500_000_000)), (10, 1));
    lane.next_step_ns = None;
    lane.end = Some(End { missing: Some("the log breaks off".to_owned()) });
    assert_eq!(lane.running(u64::MAX), 10, "nobody knows what came then");
    lane.end = Some(End::default());
    assert_eq!((lane.running(0), lane.kv_blocks(0), lane.idle_ranks(0)), (0, (0, 2 * pool), 2));
}

#[test]
fn an_eager_storm_is_half_of_the_last_steps() {
    let mut lane = lane("one");
    let mut storms = Vec::new();
    for number in 0..200 {
        let rung = (number < 100).then_some(8);
        lane.apply(Fact::Step(Box::new(step(number, number, 8, rung))));
        storms.push(lane.is_eager_storm());
    }
    assert_eq!(storms.iter().position(|&storm| storm), Some(149), "50 of 100");
    let mut without = Lane::new(&header("none", &[]), None, true);
    for number in 0..200 {
        without.apply(Fact::Step(Box::new(step(number, number, 8, None))));
    }
    assert!(!without.is_eager_storm(), "it has no graphs to do without");
}

#[test]
fn the_clock_is_held_and_let_go() {
    let mut state = state(&["one", "two"]);
    for expected in [Playback::Held, Playback::Running, Playback::Held] {
        state.update(Action::Pause);
        assert_eq!(state.playback, expected);
    }
    let before = state.speed;
    state.update(Action::Faster);
    assert!(state.speed.rate() > before.rate());
    state.update(Action::Slower);
    assert_eq!(state.speed, before);
    state.update(Action::FullSpeed);
    assert_eq!((state.speed, state.playback), (Speed::FULL, Playback::Held));
    state.update(Action::Jump(Target::Fallback));
    assert_eq!(state.playback, Playback::Seeking(Target::Fallback));
    state.update(Action::Pause);
    assert_eq!(state.playback, Playback::Held, "a search can be held, too");
}

#[test]
fn a_search_ends_with_what_it_looks_for_in_the_focus() {
    let mut state = state(&["one", "two"]);
    state.update(Action::Jump(Target::Fallback));
    told(&mut state, 1, 0, 90, None);
    told(&mut state, 0, 0, 8, Some(8));
    assert_eq!(state.playback, Playback::Seeking(Target::Fallback), "not the other's, not a graph step");
    told(&mut state, 0, 1, 90, None);
    assert_eq!(state.playback, Playback::Held);
    state.update(Action::Jump(Target::RungChange));
    told(&mut state, 0, 2, 91, None);
    assert_eq!(state.playback, Playback::Seeking(Target::RungChange), "no graph again");
    told(&mut state, 0, 3, 8, Some(8));
    assert_eq!((state.playback, state.clock_ns), (Playback::Held, 80_000_000));
    state.update(Action::Jump(Target::Preemption));
    state.apply(0, Fact::Step(Box::new(StepRecord { preempted: 2, ..step(4, 90_000_000, 8, Some(8)) })));
    assert_eq!((state.playback, state.lanes[0].preemptions), (Playback::Held, 2));
}

#[test]
fn a_search_for_nothing_says_so() {
    let mut state = state(&["one", "two"]);
    state.update(Action::Jump(Target::Preemption));
    state.end(0, End::default());
    assert_eq!(state.playback, Playback::Held);
    assert_eq!(state.note.as_deref(), Some("no further preemption: one has ended"));
    state.update(Action::Jump(Target::Fallback));
    assert_eq!(state.note.as_deref(), Some("no further fallback: one has ended"));
    state.update(Action::Jump(Target::End));
    assert_eq!((state.playback, state.note.clone()), (Playback::Seeking(Target::End), None), "two goes on");
    state.end(1, End::default());
    assert_eq!((state.playback, state.note.clone()), (Playback::Ended, None));
    state.update(Action::Pause);
    assert_eq!(state.playback, Playback::Ended);
    state.update(Action::Jump(Target::End));
    assert_eq!(state.note.as_deref(), Some("this is the end"));
}

#[test]
fn candidates_take_turns_on_the_screen() {
    let mut three = state(&["one", "two", "three"]);
    assert_eq!((three.shown.clone(), three.focused()), (vec![0, 1], 0));
    three.update(Action::NextCandidate);
    assert_eq!(three.shown, [2, 1], "the next that is not there already");
    three.update(Action::Focus);
    three.update(Action::NextCandidate);
    assert_eq!((three.shown.clone(), three.focused()), (vec![2, 0], 0));
    three.update(Action::PreviousCandidate);
    assert_eq!(three.shown, [2, 1]);
    three.update(Action::Split);
    assert_eq!((three.shown.clone(), three.focus), (vec![1], 0));
    three.update(Action::NextCandidate);
    assert_eq!(three.shown, [2]);
    three.update(Action::Split);
    assert_eq!(three.shown, [2, 0]);

    let mut one = state(&["one"]);
    for action in [Action::Focus, Action::NextCandidate, Action::PreviousCandidate, Action::Split] {
        one.update(action);
        assert_eq!((one.shown.clone(), one.focus), (vec![0], 0));
        assert!(one.note.take().is_some(), "{action:?} says why nothing happens");
    }
}

#[test]
fn rungs_are_chosen_from_those_that_fired() {
    let mut state = state(&["one"]);
    state.update(Action::LargerRung);
    assert_eq!((state.selected, state.note.as_deref()), (None, Some("no rung has fired yet")));
    for (number, rung) in [8, 32, 32, 64].into_iter().enumerate() {
        told(&mut state, 0, number as u64, rung, Some(rung));
    }
    let mut selected = |action| {
        state.update(action);
        state.selected
    };
    assert_eq!(selected(Action::SmallerRung), Some(32), "the busiest");
    assert_eq!(selected(Action::LargerRung), Some(64));
    assert_eq!(selected(Action::LargerRung), Some(64), "there is none above");
    assert_eq!(selected(Action::SmallerRung), Some(32));
    assert_eq!(selected(Action::SmallerRung), Some(8), "16 never fired");
    assert_eq!(selected(Action::SmallerRung), Some(8));
}

#[test]
fn escape_closes_what_is_open_and_never_leaves() {
    let mut state = state(&["one"]);
    told(&mut state, 0, 0, 8, Some(8));
    state.update(Action::LargerRung);
    state.update(Action::Help);
    state.update(Action::Back);
    assert_eq!((state.help, state.selected, state.leaving), (false, Some(8), None));
    state.update(Action::Back);
    assert_eq!((state.selected, state.leaving), (None, None));
    state.update(Action::Back);
    assert_eq!(state.leaving, None, "a run is not thrown away by one key too many");
    state.update(Action::Quit);
    assert_eq!(state.leaving, Some(Leaving::Quit));
    state.update(Action::Interrupt);
    assert_eq!(state.leaving, Some(Leaving::Interrupt), "a signal counts more");
    state.update(Action::Quit);
    assert_eq!(state.leaving, Some(Leaving::Interrupt));
}

#[test]
fn steps_between_two_drawings_are_said_to_be_undrawn() {
    let mut state = state(&["one", "two", "three"]);
    let mut number = 0;
    let mut run = |state: &mut State, lane, steps| {
        for _ in 0..steps {
            told(state, lane, number, 8, Some(8));
            number += 1;
        }
        state.drawn();
        (state.frames.skipped_last, state.frames.skipped)
    };
    assert_eq!(run(&mut state, 0, 0), (0, 0));
    assert_eq!(run(&mut state, 0, 1), (0, 0), "each step drawn");
    assert_eq!(run(&mut state, 1, 10), (9, 9));
    assert_eq!(run(&mut state, 0, 3), (2, 11));
    assert_eq!(run(&mut state, 2, 50), (0, 11), "it is not on the screen");
    assert_eq!(state.lanes.iter().map(|lane| lane.tallies.steps).sum::<u64>(), 64, "all are counted");
}
