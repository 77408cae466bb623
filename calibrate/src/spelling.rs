//! What a misspelt name was probably meant to be.

/// The one of `names` that `misspelt` was probably meant to be: the closest in spelling, whatever its case, else the only
/// one that begins so. `None` where that would be a guess.
#[must_use]
pub fn closest<'name>(misspelt: &str, names: &[&'name str]) -> Option<&'name str> {
    const BEGINNING_BYTES_MIN: usize = 3;
    let misspelt = misspelt.to_lowercase();
    let mut ranked: Vec<_> = names.iter().map(|name| (edit_distance(&misspelt, &name.to_lowercase()), *name)).collect();
    ranked.sort_unstable();
    let (distance, name) = *ranked.first()?;
    let is_alone = ranked.get(1).is_none_or(|next| next.0 > distance);
    if is_alone && distance * 3 <= misspelt.len().max(3) {
        return Some(name);
    }
    let mut longer = names.iter().filter(|name| name.to_lowercase().starts_with(&misspelt));
    match (longer.next(), longer.next()) {
        (Some(name), None) if misspelt.len() >= BEGINNING_BYTES_MIN => Some(name),
        _ => None,
    }
}

/// Letters to insert, drop or change between two names.
fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_guessed_only_when_close() {
        assert_eq!(
            (edit_distance("kitten", "sitting"), edit_distance("", "abc"), edit_distance("ab", "ab")),
            (3, 3, 0)
        );
        assert_eq!(closest("max_num_sequences", &["max_model_len", "max_num_seqs"]), Some("max_num_seqs"));
        assert_eq!(closest("slos", &["slo", "schema"]), Some("slo"));
        assert_eq!(closest("TIMESTAMP", &["timestamp", "in"]), Some("timestamp"));
        assert_eq!(closest("weibull", &["poisson", "gamma"]), None);
        assert_eq!(closest("0.32.0", &["0.31.0", "0.33.0"]), None);
        assert_eq!(closest("anything", &[]), None);
    }

    #[test]
    fn a_beginning_is_enough_where_only_one_name_has_it() {
        assert_eq!(closest("a100", &["a100-llama-3-8b", "h100-llama-2-7b"]), Some("a100-llama-3-8b"));
        assert_eq!(closest("h100", &["h100-llama-2-7b", "h100-llama-3-8b"]), None);
        assert_eq!(closest("i", &["in_tokens", "seconds"]), None);
    }
}
