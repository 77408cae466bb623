use std::collections::VecDeque;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::watch::action::{Action, Target};
use crate::watch::samples::{header, request, step};
use crate::watch::speed::Speed;
use crate::watch::state::{End, Lane};

/// Facts known beforehand; sometimes it has nothing yet.
struct Script(VecDeque<Next>);

impl Source for Script {
    type Error = Infallible;

    fn next(&mut self, _patience: Duration) -> Result<Next, Infallible> {
        Ok(self.0.pop_front().unwrap_or(Next::End(End::default())))
    }
}

fn script(facts: impl IntoIterator<Item = Fact>) -> Script {
    Script(facts.into_iter().map(Next::Fact).collect())
}

fn at_ms(number: u64, ms: u64, rung: Option<u32>) -> Fact {
    Fact::Step(Box::new(step(number, ms * 1_000_000, 8, rung)))
}

fn state(lanes: usize) -> State {
    let lanes = (0..lanes).map(|lane| Lane::new(&header(&lane.to_string(), &[8, 16]), None, true)).collect();
    State::new("script", lanes)
}

/// Turns until nothing is left to do without the user.
fn run(player: &mut Player<Script>, state: &mut State) -> Turn {
    loop {
        let turn = player.turn(state, Duration::from_millis(10), 7).unwrap_or_else(|never| match never {});
        if turn != Turn::Unfinished {
            return turn;
        }
    }
}

fn steps(state: &State) -> Vec<u64> {
    state.lanes.iter().map(|lane| lane.tallies.steps).collect()
}

#[test]
fn the_clock_runs_as_fast_as_it_is_told() {
    // Steps end at 20, 40, 60, ... ms.
    let facts = |count| (0..count).map(|number| at_ms(number, number * 20, Some(8)));
    let mut player = Player::new([script(facts(10))]);
    let mut state = state(1);
    state.speed = "1".parse().expect("a notch");
    let mut turn = |state: &mut State, ms| {
        player.turn(state, Duration::from_millis(ms), 100).unwrap_or_else(|never| match never {})
    };
    assert_eq!(turn(&mut state, 19), Turn::Rested);
    assert_eq!((state.clock_ns, steps(&state)), (19_000_000, vec![0]));
    assert_eq!(turn(&mut state, 1), Turn::Rested);
    assert_eq!((state.clock_ns, steps(&state)), (20_000_000, vec![1]));
    state.speed = "10".parse().expect("a notch");
    assert_eq!(turn(&mut state, 5), Turn::Rested);
    assert_eq!((state.clock_ns, steps(&state)), (70_000_000, vec![3]));
    state.update(Action::Pause);
    assert_eq!(turn(&mut state, 1_000), Turn::Still);
    assert_eq!((state.clock_ns, steps(&state)), (70_000_000, vec![3]), "held is held");
    state.update(Action::Pause);
    state.update(Action::FullSpeed);
    assert_eq!(turn(&mut state, 0), Turn::Still);
    assert_eq!((state.clock_ns, steps(&state)), (200_000_000, vec![10]));
    assert_eq!(state.playback, Playback::Ended);
}

#[test]
fn one_step_is_one_step_of_the_candidate_in_focus() {
    let ends = |offset: u64| (0..9).map(move |number| at_ms(number, number * 30 + offset, Some(8)));
    let mut player = Player::new([script(ends(0)), script(ends(10))]);
    let mut state = state(2);
    state.update(Action::Pause);
    for told in 1..4 {
        state.update(Action::Step);
        assert_eq!(run(&mut player, &mut state), Turn::Still);
        assert_eq!(steps(&state), [told, told - 1], "on the same clock");
        assert_eq!(state.playback, Playback::Held);
    }
    state.update(Action::Focus);
    state.update(Action::Step);
    run(&mut player, &mut state);
    assert_eq!(steps(&state), [3, 3]);
}

#[test]
fn jumps_find_the_next_or_say_that_there_is_none() {
    let rungs = [Some(8), Some(8), None, None, Some(16), Some(16), Some(8)];
    let facts = (0..).zip(rungs).map(|(number, rung)| at_ms(number, number * 20, rung));
    let mut player = Player::new([script(facts)]);
    let mut state = state(1);
    let mut jump = |target| {
        state.update(Action::Jump(target));
        run(&mut player, &mut state);
        (state.lanes[0].tallies.steps, state.note.clone())
    };
    assert_eq!(jump(Target::Fallback), (3, None));
    assert_eq!(jump(Target::Fallback), (4, None));
    assert_eq!(jump(Target::RungChange), (5, None));
    assert_eq!(jump(Target::RungChange), (7, None));
    let none = Some("no further preemption: 0 has ended".to_owned());
    assert_eq!(jump(Target::Preemption), (7, none));
}

#[test]
fn a_source_that_has_nothing_yet_holds_the_clock_of_all() {
    let waiting = Script(VecDeque::from([Next::NotYet, Next::Fact(at_ms(0, 5, Some(8))), Next::NotYet]));
    let mut player = Player::new([script([at_ms(0, 0, Some(8))]), waiting]);
    let mut state = state(2);
    state.update(Action::FullSpeed);
    let mut turn = || {
        let turn = player.turn(&mut state, Duration::ZERO, 100).unwrap_or_else(|never| match never {});
        (turn, steps(&state))
    };
    assert_eq!(turn(), (Turn::Unfinished, vec![0, 0]));
    assert_eq!(turn(), (Turn::Unfinished, vec![1, 1]));
    assert_eq!(turn(), (Turn::Still, vec![1, 1]));
}

proptest! {
    /// At every speed, in turns of any length, each candidate is told all of its facts, and when a fact is told no other
    /// candidate has an earlier one left.
    #[test]
    fn facts_are_merged_by_time(
        gaps in prop::collection::vec(prop::collection::vec((0u64..50, any::<bool>()), 0..40), 1..4),
        speeds in prop::collection::vec(0usize..14, 1..20),
        facts_max in 1usize..9,
    ) {
        let ladders: Vec<Vec<Fact>> = gaps.iter().map(|gaps| {
            let mut at = 0;
            (0..).zip(gaps).map(|(number, &(gap, is_step))| {
                at += gap;
                if is_step {
                    at_ms(number, at, Some(8))
                } else {
                    Fact::Request(request(number, at as f64 / 1e3, true))
                }
            }).collect()
        }).collect();
        let mut player = Player::new(ladders.iter().map(|facts| script(facts.iter().cloned())));
        let mut state = state(ladders.len());
        let count = |state: &State, lane: usize| {
            (state.lanes[lane].tallies.steps + state.lanes[lane].service.finished) as usize
        };
        let mut rounds = 0;
        while state.playback != Playback::Ended {
            let mut speed = Speed::FULL;
            (0..speeds[rounds % speeds.len()]).for_each(|_| speed = speed.slower());
            state.speed = speed;
            let elapsed = if rounds < 500 { Duration::from_millis(10) } else { Duration::from_secs(100_000) };
            let before = state.clock_ns;
            player.turn(&mut state, elapsed, facts_max).unwrap_or_else(|never| match never {});
            prop_assert!(state.clock_ns >= before, "time never falls");
            for (lane, facts) in ladders.iter().enumerate() {
                // A fact counts from when its candidate's clock has reached it.
                let mut clock = 0;
                for (place, fact) in facts.iter().enumerate() {
                    clock = clock.max(fact.at_ns());
                    prop_assert!(place < count(&state, lane) || clock >= state.lanes.iter().map(|lane| lane.clock_ns).max().unwrap_or(0));
                }
            }
            rounds += 1;
        }
        for (lane, facts) in ladders.iter().enumerate() {
            prop_assert_eq!(count(&state, lane), facts.len());
        }
    }
}
