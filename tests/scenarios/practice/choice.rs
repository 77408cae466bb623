//! Which rung to add, which to move, and the best ladder of each length.

use serde_json::Value;

use super::sheet::Sheet;
use super::tally::Tally;
use super::{PROFILES, RUNGS, best_ms, distribution, graph_ms};

/// Milliseconds per step under some dispatcher.
type Policy = fn(&Value) -> f64;

/// A ladder and its milliseconds per step.
type Worked<'a> = (&'a [u32], f64);

/// Prices with 1, 2, ... 32 added, under a policy; the best of them, its milliseconds, its gain in milliseconds and in
/// percent; the gains of the next ones, in their order.
type Addition<'a> = (&'a [Value], Policy, u32, f64, f64, f64, &'a [(u32, f64)]);

fn sheet(ladders: &[Vec<u32>]) -> Sheet {
    ladders.iter().fold(Sheet::decodes(&distribution()), |sheet, ladder| sheet.ladder(ladder))
}

fn with(rungs: &[u32], rung: u32) -> Vec<u32> {
    let mut ladder: Vec<u32> = rungs.iter().copied().chain([rung]).collect();
    ladder.sort_unstable();
    ladder.dedup();
    ladder
}

#[test]
fn the_best_single_rung_to_add() {
    let mut tally = Tally::new("one rung more");
    let ladders: Vec<Vec<u32>> = (1..=32).map(|rung| with(&RUNGS, rung)).collect();
    let steep = sheet(&ladders).price(PROFILES[0]);
    let flat = sheet(&ladders).price(PROFILES[1]);
    let cases: [Addition<'_>; 4] = [
        (
            &steep,
            graph_ms,
            24,
            5.329_2,
            0.144,
            2.631_002,
            &[(23, 0.141_75), (25, 0.141_75), (12, 0.139_2), (22, 0.135)],
        ),
        (
            &steep,
            best_ms,
            6,
            5.144_025,
            0.074_4,
            1.425_718,
            &[(12, 0.056_55), (5, 0.055_8), (7, 0.055_8), (11, 0.055_462)],
        ),
        (&flat, graph_ms, 24, 4.431_6, 0.012, 0.270_051, &[(23, 0.011_813), (25, 0.011_813), (12, 0.011_6)]),
        (&flat, best_ms, 24, 4.431_6, 0.012, 0.270_051, &[(23, 0.011_813), (25, 0.011_813), (12, 0.011_6)]),
    ];
    for (priced, policy, best, ms, gain, percent, next) in cases {
        let at = |rung: u32| policy(&priced[rung as usize - 1]);
        let base = at(RUNGS[0]);
        let mut ranked: Vec<u32> = (1..=32).collect();
        ranked.sort_by(|a, b| at(*a).total_cmp(&at(*b)));
        tally.equal("the best", ranked[0], best);
        tally.number(&format!("{best} added"), at(best), ms);
        tally.number(&format!("gain of {best}"), base - at(best), gain);
        tally.number(&format!("gain of {best}, %"), 100.0 * (base - at(best)) / base, percent);
        for (place, &(rung, gain)) in next.iter().enumerate() {
            tally.number(&format!("gain of {rung}"), base - at(rung), gain);
            tally.number(&format!("gain of the rung in place {}", place + 2), base - at(ranked[place + 1]), gain);
        }
    }
    tally.finish();
}

#[test]
fn the_best_rung_to_move() {
    let mut tally = Tally::new("one rung moved");
    let mut ladders: Vec<Vec<u32>> = RUNGS
        .iter()
        .flat_map(|gone| (1..=32).map(move |rung| (gone, rung)))
        .map(|(gone, rung)| {
            let rest: Vec<u32> = RUNGS.into_iter().filter(|kept| kept != gone).collect();
            with(&rest, rung)
        })
        .filter(|ladder| ladder.len() == RUNGS.len())
        .collect();
    ladders.sort_unstable();
    ladders.dedup();
    let cases: [(&str, Policy, &[u32], f64); 4] = [
        (PROFILES[0], graph_ms, &[1, 4, 8, 12, 16], 5.176_5),
        (PROFILES[0], best_ms, &[1, 4, 6, 8, 16], 5.158_65),
        (PROFILES[1], graph_ms, &[4, 8, 16, 24, 32], 4.436_4),
        (PROFILES[1], best_ms, &[4, 8, 16, 24, 32], 4.436_4),
    ];
    for (profile, policy, best, ms) in cases {
        let priced = sheet(&ladders).price(profile);
        let (ladder, found) =
            ladders.iter().zip(&priced).min_by(|(_, a), (_, b)| policy(a).total_cmp(&policy(b))).expect("many ladders");
        tally.equal("the best", ladder.clone(), best.to_vec());
        tally.number(&format!("{best:?}"), policy(found), ms);
    }
    tally.finish();
}

/// The ladder is the best of its length, found elsewhere; here it costs what it should.
#[test]
fn the_best_ladder_of_each_length() {
    let mut tally = Tally::new("ladders of one to eight rungs");
    let steep: &[Worked<'_>] = &[
        (&[3], 5.464_2),
        (&[3, 7], 5.343_925),
        (&[2, 5, 8], 5.253),
        (&[2, 5, 8, 12], 5.196_45),
        (&[2, 5, 8, 12, 16], 5.139_9),
        (&[2, 4, 6, 8, 12, 16], 5.094_1),
        (&[2, 4, 6, 8, 10, 13, 16], 5.050_6),
        (&[2, 4, 6, 8, 10, 12, 14, 16], 5.024_5),
    ];
    let flat: &[Worked<'_>] = &[
        (&[16], 4.648),
        (&[12, 32], 4.548),
        (&[8, 16, 32], 4.468_4),
        (&[5, 9, 16, 32], 4.448_325),
        (&[5, 9, 16, 24, 32], 4.436_325),
        (&[4, 8, 12, 16, 24, 32], 4.424_8),
        (&[2, 5, 8, 12, 16, 24, 32], 4.416_95),
        (&[2, 5, 8, 12, 16, 21, 26, 32], 4.413_012),
    ];
    let steep_best: &[Worked<'_>] = &[
        (&[8], 5.436_3),
        (&[5, 8], 5.334_6),
        (&[2, 5, 8], 5.253),
        (&[2, 5, 8, 12], 5.196_45),
        (&[2, 5, 8, 12, 16], 5.139_9),
        (&[2, 4, 6, 8, 12, 16], 5.094_1),
    ];
    let cases: [(&str, Policy, &[Worked<'_>]); 3] =
        [(PROFILES[0], graph_ms, steep), (PROFILES[0], best_ms, steep_best), (PROFILES[1], graph_ms, flat)];
    for (profile, policy, table) in cases {
        let ladders: Vec<Vec<u32>> = table.iter().map(|(ladder, _)| ladder.to_vec()).collect();
        let priced = sheet(&ladders).price(profile);
        for ((ladder, ms), found) in table.iter().zip(&priced) {
            tally.number(&format!("{profile}: {ladder:?}"), policy(found), *ms);
        }
    }
    for (profile, best, gain) in [(PROFILES[0], steep[4].0, 0.333_3), (PROFILES[1], flat[4].0, 0.007_275)] {
        let priced = sheet(&[RUNGS.to_vec(), best.to_vec()]).price(profile);
        tally.number("gain of the best five rungs", graph_ms(&priced[0]) - graph_ms(&priced[1]), gain);
    }
    tally.finish();
}
