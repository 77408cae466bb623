//! Whether a table of times can be one of a device: more rows never take much less, and no device computes or reads faster
//! than any that is sold.
//!
//! Public tables of A100, H100, A800 and H800 fall by up to 22 % from one size to a larger one (tile shapes, and noise), so a
//! little less is no fault; columns in the wrong order, interchanged rows and a slipped digit go far beyond.

use calibrate::measure::median;
use calibrate::profile::{Attention, Axis, Curve, Grid, Surface};
use kernels::geometry::ModelGeometry;
use kernels::work::{Work, attention_work, dense_work};

use crate::fit::FitError;

/// A larger size that takes less than this share of a smaller one is no measurement; nor are larger sizes that do so together.
const FALLS: f64 = 0.34;
/// The largest third of the sizes against the smallest third.
const FALLS_TOGETHER: f64 = 0.67;
/// One that takes less than this share falls more than any public table does.
const DOUBTFUL: f64 = 0.8;
/// Rates at which devices stream weights, 10^9 bytes per second: far beyond both ends of what is sold.
const PLAUSIBLE_GB_PER_S: [f64; 2] = [10.0, 50_000.0];
/// The faster of the two in bytes per microsecond.
pub const MOST_BYTES_PER_US: f64 = PLAUSIBLE_GB_PER_S[1] * 1e3;
/// Arithmetic with 16-bit numbers, 10^12 per second: twice what the fastest announced device does.
const MOST_TFLOP_PER_S: f64 = 10_000.0;

const UNIT: &str = "check the unit of the times, and whether they are of this model";

/// Checks times over rows, all layers; says what is doubtful.
///
/// # Errors
/// No device has such times.
pub fn of_rows(file: &str, curve: &Curve, model: &ModelGeometry) -> Result<Option<String>, FitError> {
    let Curve::Table(table) = curve else { return Ok(None) };
    let points: Vec<(f64, f64)> = table.x().iter().copied().zip(table.y().iter().copied()).collect();
    let Some(&(rows, us)) = points.first() else { return Ok(None) };
    let gb_per_s = dense_work(model, rows as u32).bytes / us / 1e3;
    if gb_per_s < PLAUSIBLE_GB_PER_S[0] {
        return Err(implausible(file, &of(rows), us, &rate_gb_per_s(gb_per_s)));
    }
    let weights = dense_work(model, 1).bytes;
    for &(rows, us) in &points {
        // What rows read beside the weights may lie in the device's cache.
        not_too_fast(file, &of(rows), us, Work { bytes: weights, ..dense_work(model, rows as u32) })?;
    }
    falls(file, &points)
}

/// Says so where a device would have to read faster than its memory can.
#[must_use]
pub fn beyond_memory(file: &str, curve: &Curve, model: &ModelGeometry, read_gb_per_s: f64) -> Option<String> {
    const BEYOND: f64 = 1.1;
    let Curve::Table(table) = curve else { return None };
    let (&rows, &us) = (table.x().first()?, table.y().first()?);
    let gb_per_s = dense_work(model, rows as u32).bytes / us / 1e3;
    (gb_per_s > BEYOND * read_gb_per_s).then(|| {
        format!(
            "{file}: {} in {us} us: weights read at {gb_per_s:.0} GB/s, and the device reads {read_gb_per_s:.0} at most: is it that \
             device, and that model with {}-bit weights?",
            of(rows),
            model.weight_bits
        )
    })
}

/// Checks attention of all layers: larger batches, longer contexts and longer chunks take no less.
///
/// # Errors
/// No device has such times.
pub fn of_attention(file: &str, attention: &Attention, model: &ModelGeometry) -> Result<(), FitError> {
    if let Surface::Grid(grid) = &attention.decode {
        let words =
            |requests: f64, context: f64| format!("decode of {requests} requests with {context} tokens of context");
        ends(file, grid, &words)?;
        let [requests, context] = grid.axes().map(Axis::last);
        let work = attention_work(model, 1, context as u32) * requests;
        not_too_fast(file, &words(requests, context), grid.at(requests, context).value, work)?;
    }
    if let Surface::Grid(grid) = &attention.prefill {
        let words = |chunk: f64, context: f64| format!("a prefill chunk of {chunk} tokens after {context}");
        ends(file, grid, &words)?;
        let [chunk, context] = grid.axes().map(Axis::last);
        let work = Work { bytes: 0.0, ..attention_work(model, chunk as u32, context as u32) };
        not_too_fast(file, &words(chunk, context), grid.at(chunk, context).value, work)?;
    }
    Ok(())
}

/// The largest of both takes no less than the smallest of both.
fn ends(file: &str, grid: &Grid, words: &dyn Fn(f64, f64) -> String) -> Result<(), FitError> {
    let [x, y] = grid.axes();
    let (first, last) = ((x.knots()[0], y.knots()[0]), (x.last(), y.last()));
    let (first_us, last_us) = (grid.at(first.0, first.1).value, grid.at(last.0, last.1).value);
    if last_us < FALLS * first_us {
        let problem =
            format!("{} takes {last_us} us and {} takes {first_us} us", words(last.0, last.1), words(first.0, first.1));
        return Err(FitError::file(
            file,
            problem,
            "the larger takes no less on any device: check the order of the columns",
        ));
    }
    Ok(())
}

fn falls(file: &str, points: &[(f64, f64)]) -> Result<Option<String>, FitError> {
    let help = "more rows take no less on any device: check the two rows, and the order of the columns";
    let third = points.len() / 3;
    let middle = |points: &[(f64, f64)]| median(&points.iter().map(|(_, us)| *us).collect::<Vec<_>>());
    let (first, last) = (&points[..third], &points[points.len() - third..]);
    if third > 0 && middle(last) < FALLS_TOGETHER * middle(first) {
        let ends = (points[0], points[points.len() - 1]);
        let problem = format!(
            "{} in {} us, {} in {} us: it falls from size to size",
            of(ends.1.0),
            ends.1.1,
            of(ends.0.0),
            ends.0.1
        );
        return Err(FitError::file(file, problem, help));
    }
    let fall = |pair: &[(f64, f64)]| pair[1].1 / pair[0].1;
    let mut falls: Vec<&[(f64, f64)]> = points.windows(2).filter(|pair| fall(pair) < DOUBTFUL).collect();
    falls.sort_by(|one, other| fall(one).total_cmp(&fall(other)));
    let Some(deepest) = falls.first() else { return Ok(None) };
    let [(fewer, fewer_us), (rows, us)] = [deepest[0], deepest[1]];
    let words = format!("{} in {us} us, {} in {fewer_us} us", of(rows), of(fewer));
    if fall(deepest) < FALLS {
        return Err(FitError::file(file, words, help));
    }
    let more = if falls.len() > 1 { format!(", and {} more like it", falls.len() - 1) } else { String::new() };
    Ok(Some(format!(
        "{file}: {words}{more}: a graph of more rows would look like the cheaper one there; measure both again"
    )))
}

fn of(rows: f64) -> String {
    if rows > 1.0 { format!("{rows} rows") } else { "one row".to_owned() }
}

fn not_too_fast(file: &str, what: &str, us: f64, work: Work) -> Result<(), FitError> {
    let (gb_per_s, tflop_per_s) = (work.bytes / us / 1e3, work.flops / us / 1e6);
    if gb_per_s > PLAUSIBLE_GB_PER_S[1] {
        return Err(implausible(file, what, us, &rate_gb_per_s(gb_per_s)));
    }
    if tflop_per_s > MOST_TFLOP_PER_S {
        let rate = format!("{tflop_per_s:.0} TFLOP/s: expected at most {MOST_TFLOP_PER_S}");
        return Err(implausible(file, what, us, &rate));
    }
    Ok(())
}

fn rate_gb_per_s(gb_per_s: f64) -> String {
    let [least, most] = PLAUSIBLE_GB_PER_S;
    format!("weights or keys and values read at {gb_per_s:.3} GB/s: expected {least} to {most}")
}

fn implausible(file: &str, what: &str, us: f64, rate: &str) -> FitError {
    FitError::file(file, format!("{what} in {us} us: {rate}"), UNIT)
}

#[cfg(test)]
mod tests {
    use calibrate::profile::Table;

    use super::*;

    fn checked(points: &[(f64, f64)]) -> Result<Option<String>, FitError> {
        let (rows, us) = points.iter().copied().unzip();
        let table = Table::new(Axis::new(rows).expect("rising"), us).expect("a time for each");
        let model = ModelGeometry::preset("llama-3.1-8b").expect("a preset");
        of_rows("t.csv", &Curve::Table(table), &model)
    }

    #[test]
    fn stairs_and_a_little_noise_are_sound() {
        for points in [
            &[(1.0, 5000.0), (8.0, 5000.0), (64.0, 5100.0), (65.0, 8000.0), (128.0, 8000.0), (129.0, 12_000.0)][..],
            &[(1.0, 5000.0), (8.0, 4300.0), (64.0, 5100.0)],
            &[(1.0, 5000.0), (128.0, 5000.0)],
        ] {
            assert_eq!(checked(points).expect("sound"), None, "{points:?}");
        }
    }

    #[test]
    fn what_falls_is_doubted_and_then_refused() {
        let doubt = checked(&[(1.0, 5000.0), (8.0, 5100.0), (64.0, 3900.0), (72.0, 6000.0)]).expect("doubtful");
        assert!(doubt.expect("a doubt").starts_with("t.csv: 64 rows in 3900 us, 8 rows in 5100 us"));
        let reversed = [(1.0, 9000.0), (8.0, 7000.0), (64.0, 5000.0)];
        let outlier = [(1.0, 5000.0), (8.0, 51_000.0), (64.0, 5200.0)];
        let slipped = [(1.0, 5000.0), (8.0, 510.0), (64.0, 5200.0)];
        for points in [reversed, outlier, slipped] {
            assert!(checked(&points).is_err(), "{points:?}");
        }
        // One hiccup among many sizes is told, once, and does not refuse the others.
        let hiccups: Vec<(f64, f64)> = (1..100)
            .map(|rows| (f64::from(rows), if rows % 40 == 7 { 9000.0 } else { 5000.0 + f64::from(rows) }))
            .collect();
        let doubt = checked(&hiccups).expect("doubtful").expect("a doubt");
        assert!(doubt.contains("8 rows in 5008 us, 7 rows in 9000 us, and 2 more like it"), "{doubt}");
    }

    #[test]
    fn no_device_is_so_fast_or_so_slow() {
        // 16 GFLOP a row: flat to 65,536 rows is 2e14 FLOP/s times 100.
        let flat = checked(&[(1.0, 5000.0), (65_536.0, 5000.0)]).expect_err("flat").to_string();
        assert!(flat.contains("TFLOP/s"), "{flat}");
        let fast = checked(&[(1.0, 5.0), (8.0, 6.0)]).expect_err("too fast").to_string();
        let slow = checked(&[(1.0, 5e6), (8.0, 6e6)]).expect_err("too slow").to_string();
        assert!(fast.contains("GB/s") && slow.contains("GB/s"), "{fast} {slow}");
    }
}
