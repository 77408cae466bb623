//! Operations on rows: embedding, norms, rotary embedding, activation, argmax, products.

use super::Heads;

/// Row `ids[i]` of the table for each `i`; row 0 for an id outside the table.
pub fn embed<T: Copy>(table: &[T], ids: &[i32], hidden: usize) -> Vec<T> {
    let table_rows = table.len() / hidden;
    let row = |id: i32| usize::try_from(id).ok().filter(|id| *id < table_rows).unwrap_or(0);
    ids.iter().flat_map(|id| table[row(*id) * hidden..][..hidden].iter().copied()).collect()
}

/// `a + b`.
pub fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Every row of the weight's width divided by the root of its mean square, times the weight.
pub fn rms_norm(rows: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(rows.len());
    for row in rows.chunks_exact(weight.len()) {
        let mean_square = row.iter().map(|value| value * value).sum::<f64>() / weight.len() as f64;
        let root = (mean_square + epsilon).sqrt();
        out.extend(row.iter().zip(weight).map(|(value, weight)| value / root * weight));
    }
    out
}

/// [`rms_norm`] of every query head and every key head by themselves; values stay.
pub fn head_norm(qkv: &[f64], heads: Heads, query_weight: &[f64], key_weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(qkv.len());
    for row in qkv.chunks_exact(heads.qkv_width()) {
        for (index, head) in row.chunks_exact(heads.size).enumerate() {
            if index < heads.query {
                out.extend(rms_norm(head, query_weight, epsilon));
            } else if index < heads.query + heads.kv {
                out.extend(rms_norm(head, key_weight, epsilon));
            } else {
                out.extend(head);
            }
        }
    }
    out
}

/// Every query and key head turned by its row's position: elements d and d + size / 2 are a point of the plane, turned by
/// `position / theta^(2 d / size)`; values stay.
pub fn rotary(qkv: &[f64], heads: Heads, positions: &[i32], theta: f64) -> Vec<f64> {
    let mut out = qkv.to_vec();
    let half = heads.size / 2;
    for (row, position) in out.chunks_exact_mut(heads.qkv_width()).zip(positions) {
        for head in row.chunks_exact_mut(heads.size).take(heads.query + heads.kv) {
            for d in 0..half {
                let angle = f64::from(*position) / theta.powf(2.0 * d as f64 / heads.size as f64);
                let (sine, cosine) = angle.sin_cos();
                let (x, y) = (head[d], head[d + half]);
                head[d] = x * cosine - y * sine;
                head[d + half] = y * cosine + x * sine;
            }
        }
    }
    out
}

/// `silu(gate) * up` over rows `[gate | up]`, each half `intermediate` wide.
pub fn silu_mul(gate_up: &[f64], intermediate: usize) -> Vec<f64> {
    let silu = |gate: f64| gate / (1.0 + (-gate).exp());
    let mut out = Vec::with_capacity(gate_up.len() / 2);
    for row in gate_up.chunks_exact(2 * intermediate) {
        let (gate, up) = row.split_at(intermediate);
        out.extend(gate.iter().zip(up).map(|(gate, up)| silu(*gate) * up));
    }
    out
}

/// Index of each row's largest value, the first of equals; NaN only where there is nothing else, then 0.
pub fn argmax(rows: &[f64], width: usize) -> Vec<i32> {
    let largest = |row: &[f64]| {
        let numbers = row.iter().enumerate().filter(|(_, value)| !value.is_nan());
        let best = numbers.fold(None, |best: Option<(usize, f64)>, (index, value)| match best {
            Some((_, largest)) if largest >= *value => best,
            _ => Some((index, *value)),
        });
        best.map_or(0, |(index, _)| i32::try_from(index).expect("rows are narrower than 2^31"))
    };
    rows.chunks_exact(width).map(largest).collect()
}

/// `input x weight^T + bias`: rows of `inputs` times the rows of the weight; no bias if it is empty.
pub fn product(input: &[f64], weight: &[f64], bias: &[f64], inputs: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(input.len() / inputs * (weight.len() / inputs));
    for row in input.chunks_exact(inputs) {
        for (output, column) in weight.chunks_exact(inputs).enumerate() {
            let sum: f64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
            out.push(sum + bias.get(output).copied().unwrap_or(0.0));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-12, "{got} is not {want}");
        }
    }

    #[test]
    fn rows_by_hand() {
        assert_eq!(embed(&[1, 2, 3, 4], &[1, 0, -1, 2], 2), [3, 4, 1, 2, 1, 2, 1, 2]);
        // Mean square of (3, 4) is 12.5.
        let root = 12.5_f64.sqrt();
        near(&rms_norm(&[3.0, 4.0], &[1.0, 2.0], 0.0), &[3.0 / root, 8.0 / root]);
        near(&rms_norm(&[3.0, 4.0], &[1.0, 1.0], 3.5), &[0.75, 1.0]);
        near(&silu_mul(&[0.0, 1.0, 5.0, 2.0], 2), &[0.0, 2.0 / (1.0 + (-1.0_f64).exp())]);
        assert_eq!(product(&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 1.0, 1.0], &[0.5, 0.0], 2), [1.5, 3.0, 3.5, 7.0]);
        assert_eq!(product(&[1.0, 2.0], &[1.0, 1.0], &[], 2), [3.0]);
    }

    #[test]
    fn argmax_takes_the_first_of_equals_and_no_nan() {
        let nan = f64::NAN;
        let rows = [[1.0, 3.0, 3.0], [nan, -1.0, -2.0], [nan, nan, nan], [nan, f64::NEG_INFINITY, nan]];
        assert_eq!(argmax(rows.as_flattened(), 3), [1, 1, 0, 1]);
        assert_eq!(argmax(&[-0.0, 0.0], 2), [0]);
    }

    #[test]
    fn a_rotation_by_hand() {
        // Size 4, so two pairs: (0, 2) turns by the position, (1, 3) by position / theta^(1/2).
        let heads = Heads { query: 1, kv: 1, size: 4 };
        let qkv = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 6.0, 7.0, 8.0];
        let turned = rotary(&qkv, heads, &[3], 100.0);
        let ((s, c), (t, d)) = (3.0_f64.sin_cos(), 0.3_f64.sin_cos());
        near(&turned, &[c, d, s, t, -s, -t, c, d, 5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn heads_are_normed_by_their_own_weights() {
        let heads = Heads { query: 2, kv: 1, size: 2 };
        let qkv = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0];
        let normed = head_norm(&qkv, heads, &[1.0, 2.0], &[3.0, 4.0], 0.0);
        near(&normed, &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
    }
}
