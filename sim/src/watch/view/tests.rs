//! Whole screens over the life of a run, and what holds for all of them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use reports::{RequestRecord, SloReport};

use super::*;
use crate::watch::action::{Action, Target};
use crate::watch::fact::Fact;
use crate::watch::samples::{header, request, step};
use crate::watch::state::{End, Playback, State, WarmUpCut};

/// A ladder with as many rungs as vLLM's own up to 64.
const SIZES: [u32; 11] = [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64];
const SLO: SloReport = SloReport { ttft_ms: Some(1_000.0), tpot_ms: Some(50.0), e2el_ms: None };
/// Sizes of the snapshots.
const SCREENS: [(u16, u16); 4] = [(120, 40), (80, 24), (40, 10), (1, 1)];

fn beginning(names: &[&str]) -> State {
    let lane = |name: &&str| {
        let sizes: &[u32] = if *name == "no graphs" { &[] } else { &SIZES };
        Lane::new(&header(name, sizes), Some(SLO), true)
    };
    State::new("Chunked prefill against a 64-token ceiling · seed 7", names.iter().map(lane).collect())
}

/// Batches that go up and down below the ceiling, with a prompt now and then; `steps` of them from `from` on.
fn run(state: &mut State, from: u64, steps: u64) {
    for number in from..from + steps {
        let wave = ((number / 7) % 40) as u32;
        let rows = if number % 23 == 22 { 900 } else { 5 + wave };
        tell(state, number, rows);
        if number % 11 == 10 {
            for lane in 0..state.lanes.len() {
                let arrival_s = (number * 20) as f64 / 1e3 - 1.98;
                state.apply(lane, Fact::Request(request(number, arrival_s.max(0.0), number % 5 != 0)));
            }
        }
    }
}

/// A decode batch that grew above the ceiling and stays there.
fn storm(state: &mut State, from: u64, steps: u64) {
    (from..from + steps).for_each(|number| tell(state, number, 70 + (number % 9) as u32));
}

/// The same step of all candidates, each on its own rung.
fn tell(state: &mut State, number: u64, rows: u32) {
    for lane in 0..state.lanes.len() {
        let rung = state.lanes[lane].capture_sizes.iter().copied().find(|&size| size >= rows);
        let mut record = step(number, number * 20_000_000, rows, rung);
        if rung.is_none() && state.lanes[lane].capture_sizes.is_empty() {
            record.fallback = Some("graphs_off".into());
        }
        record.preempted = u32::from(number % 400 == 399);
        state.apply(lane, Fact::Step(Box::new(record)));
    }
}

fn ended(mut state: State) -> State {
    (0..state.lanes.len()).for_each(|lane| state.end(lane, End::default()));
    state
}

/// Every screen that has a snapshot.
fn screens() -> Vec<(&'static str, State)> {
    let two = || beginning(&["engine default", "no graphs"]);
    let middle = || {
        let mut state = two();
        run(&mut state, 0, 1_500);
        state.drawn();
        run(&mut state, 1_500, 12);
        state.drawn();
        state
    };
    let stormy = || {
        let mut state = middle();
        storm(&mut state, 1_512, 700);
        state
    };
    let with = |mut state: State, actions: &[Action]| {
        for &action in actions {
            state.update(action);
        }
        state
    };
    let mut alone = beginning(&["engine default"]);
    run(&mut alone, 0, 1_500);
    let mut broken = two();
    run(&mut broken, 0, 100);
    broken.end(0, End { missing: Some("the log breaks off in line 102: what follows is missing".to_owned()) });
    let mut silent = beginning(&["engine default"]);
    silent.lanes[0].knows_requests = false;
    run(&mut silent, 0, 100);
    let mut warm = two();
    warm.warm_up = Some(WarmUpCut { requests: Some(1_200), until_ns: Some(28_904_000_000) });
    run(&mut warm, 0, 1);
    let mut refused = beginning(&["engine default", "no graphs"]);
    for (lane, id) in [(0, 0), (0, 1), (1, 0)] {
        let gone = RequestRecord { outcome: "refused".to_owned(), e2el_ms: None, ..request(id, 0.0, false) };
        refused.apply(lane, Fact::Request(gone));
    }
    vec![
        ("warm-up", warm),
        ("all refused", ended(refused)),
        ("start", two()),
        ("middle", middle()),
        ("eager storm", stormy()),
        ("end", ended(stormy())),
        ("help", with(middle(), &[Action::Help])),
        ("selected rung", with(middle(), &[Action::LargerRung, Action::SmallerRung])),
        ("one candidate", alone.clone()),
        ("one candidate, selected rung", with(alone, &[Action::LargerRung])),
        ("held", with(middle(), &[Action::Pause, Action::Focus])),
        ("nothing follows", with(ended(middle()), &[Action::Jump(Target::Preemption)])),
        ("broken log", broken),
        ("requests not in the log", silent),
    ]
}

fn drawn(state: &State, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer");
    terminal.draw(|frame| render(frame, state, frame.area())).expect("a buffer");
    terminal.backend().buffer().clone()
}

/// The lines of a screen, without the blanks at their ends.
fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(line).collect()
}

#[test]
fn screens_over_the_life_of_a_run() {
    for (name, state) in screens() {
        let drawings: Vec<String> = SCREENS
            .into_iter()
            .map(|(width, height)| {
                let rule = format!("-- {width}x{height} {}", "-".repeat(usize::from(width).saturating_sub(12)));
                format!("{rule}\n{}\n", lines(&drawn(&state, width, height)).join("\n"))
            })
            .collect();
        insta::assert_snapshot!(name.replace([' ', ','], "_"), drawings.concat());
    }
}

/// Graphs of decode batches have sizes of their own, which are not among those of the ladder: each that fired has its line.
#[test]
fn every_rung_that_fired_has_a_line_where_there_is_room() {
    let mut state = beginning(&["engine default"]);
    for rows in (3..60).step_by(3) {
        state.apply(0, Fact::Step(Box::new(step(rows.into(), u64::from(rows) * 20_000_000, rows, Some(rows)))));
    }
    let lines = lines(&drawn(&state, 80, 60));
    for rows in (3..60).step_by(3) {
        let wanted = [rows.to_string(), "1".to_owned()];
        let has_line = |line: &String| line.split_whitespace().filter(|word| *word != "▶").take(2).eq(&wanted);
        assert!(lines.iter().any(has_line), "{rows}:\n{}", lines.join("\n"));
    }
}

/// What a screen says in one size it says in others, or leaves out: a number that lost digits would be another number.
#[test]
fn no_number_is_cut() {
    let numbers = |lines: &[String]| -> BTreeSet<String> {
        // What counts lines of the screen itself differs from size to size, and so do columns of the time axis.
        lines
            .iter()
            .flat_map(|line| {
                line.split(['│', ' ', '┼', '(', ')', '+', ',']).map(|word| word.trim_matches(['░', '█', '▒', '·']))
            })
            .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))
            .map(|word| word.trim_end_matches('…').to_owned())
            .collect()
    };
    for (name, state) in screens() {
        if state.selected.is_some() {
            // Batches are taken together by the room there is.
            continue;
        }
        let mut known = BTreeSet::new();
        for (width, height) in [(400, 120), (170, 120), (89, 120)] {
            known.extend(numbers(&lines(&drawn(&state, width, height))));
        }
        for width in [12, 20, 27, 33, 40, 50, 64, 77, 80, 100] {
            for height in [4, 7, 10, 14, 24, 40] {
                for line in lines(&drawn(&state, width, height)) {
                    if line.contains('…') || line.contains("more") {
                        continue;
                    }
                    let unknown: Vec<String> = numbers(std::slice::from_ref(&line))
                        .into_iter()
                        .filter(|number| !known.contains(number))
                        .collect();
                    assert!(unknown.is_empty(), "{name} at {width}x{height}: {unknown:?} in {line}");
                }
            }
        }
    }
}

#[test]
fn an_eager_storm_is_seen_at_first_sight() {
    let of = |name: &str| screens().into_iter().find(|(found, _)| *found == name).expect("a screen").1;
    let (calm, storm) = (of("middle"), of("eager storm"));
    for (width, height) in [(120, 40), (80, 24), (40, 10), (30, 6)] {
        let text = |state| lines(&drawn(state, width, height)).join("\n");
        assert!(text(&storm).contains("EAGER STORM"), "{}", text(&storm));
        assert!(!text(&calm).contains("EAGER STORM"));
    }
    // Not by colour alone: its steps have a character of their own.
    let marks = |state| lines(&drawn(state, 120, 40)).concat().matches('▒').count();
    assert!(marks(&storm) > marks(&calm) + 40, "{} and {}", marks(&storm), marks(&calm));
}

#[test]
fn colours_are_of_the_16_and_only_where_they_may_be() {
    let colours = |state: &State| -> BTreeSet<String> {
        let buffer = drawn(state, 120, 40);
        buffer.content.iter().flat_map(|cell| [cell.fg, cell.bg]).map(|colour| colour.to_string()).collect()
    };
    for (name, state) in screens() {
        for colour in colours(&state) {
            let known: Color = colour.parse().expect("a colour");
            assert!(!matches!(known, Color::Rgb(..) | Color::Indexed(_)), "{name}: {colour}");
        }
        let plain = State { colour: false, ..state.clone() };
        assert_eq!(colours(&plain), BTreeSet::from(["Reset".to_owned()]), "{name}");
        assert_eq!(lines(&drawn(&plain, 120, 40)), lines(&drawn(&state, 120, 40)), "{name}: the same text");
    }
}

#[test]
fn names_from_a_file_cannot_move_the_cursor() {
    let state = beginning(&["\u{1b}[2J\u{7}ev\nil", "分块预填充分块预填充分块预填充分块预填充分块预填充"]);
    for (width, height) in SCREENS {
        for cell in drawn(&state, width, height).content {
            assert!(!cell.symbol().chars().any(char::is_control), "{:?}", cell.symbol());
        }
    }
    let screen = lines(&drawn(&state, 80, 24)).join("\n");
    assert!(screen.contains("ev") && screen.contains("il"), "{screen}");
}

#[test]
fn an_area_of_nothing_is_left_alone() {
    for (width, height) in [(0, 0), (1, 0), (0, 1), (0, 24), (80, 0)] {
        for (_, state) in screens() {
            drawn(&state, width, height);
        }
    }
    let mut terminal = Terminal::new(TestBackend::new(10, 4)).expect("a buffer");
    let state = beginning(&["engine default"]);
    terminal.draw(|frame| render(frame, &state, Rect::new(5, 2, 50, 50))).expect("what lies outside is not drawn");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any state in any size: no panic.
    #[test]
    fn every_screen_can_be_drawn(
        width in 0u16..140,
        height in 0u16..45,
        screen in 0usize..12,
        help in any::<bool>(),
        selected in prop::option::of(0u32..70),
        playback in prop_oneof![Just(Playback::Held), Just(Playback::Seeking(Target::End)), Just(Playback::Ended)],
    ) {
        let state = screens().swap_remove(screen).1;
        drawn(&State { playback, selected, help, ..state }, width, height);
    }
}
