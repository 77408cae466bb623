//! Under which name the kernel tables of a run are filed.
//!
//! Runs and tables are filed by card, model and ranks: `rtx4090_llama8b_tp1`. A second run of the same server has a longer
//! name, such as `rtx4090_llama8b_tp1_night`, or one that says nothing; then `meta.json` tells card, model and ranks.

use std::fs;
use std::path::Path;

use calibrate::stderr::printable;

use super::ValidateError;
use super::cards::{card_of, card_of_device};
use super::run::Meta;
use crate::file_error::FileError;

/// Makes sure that the name under which a run is filed does not say another card or other ranks than its `meta.json`.
///
/// # Errors
/// It does.
pub fn check(file: &str, run: &str, meta: &Meta) -> Result<(), ValidateError> {
    let refuse = |key: &str, value: &str, filed: &str| {
        let problem = format!("{key} is {value}, but the run is filed under {filed}");
        Err(ValidateError::file(file, problem, "correct the file, or name the run after the card and ranks it had"))
    };
    let device = meta.hardware.as_ref().map(|hardware| hardware.device_name.as_str());
    if let (Some(filed), Some(device)) = (card_of(run), device)
        && card_of_device(device).is_some_and(|card| card != filed)
    {
        return refuse("hardware.device_name", &printable(device), filed.short);
    }
    match (ranks_of(run), meta.engine_kwargs.tensor_parallel_size) {
        (Some(filed), Some(ranks)) if filed != ranks => {
            refuse("tensor_parallel_size", &ranks.to_string(), &format!("tp{filed}"))
        }
        _ => Ok(()),
    }
}

/// A device that is none of the known cards, though the run is filed under one: a sentence.
#[must_use]
pub fn doubt(run: &str, meta: &Meta) -> Option<String> {
    let device = &meta.hardware.as_ref()?.device_name;
    let filed = card_of(run).filter(|_| card_of_device(device).is_none())?;
    Some(format!(
        "the device is recorded as {}; the run is taken for one on an {}, as it is filed",
        printable(device),
        filed.name
    ))
}

/// The name of the dense table in `folder` that is of this run's card, model and ranks: the run's own; else the longest that
/// is a part of the run's; else the longest whose card, model and ranks are those of its `meta.json`. `None` where there is
/// no such table.
///
/// # Errors
/// The folder cannot be read.
pub fn tables_of(folder: &Path, run: &str, meta: &Meta) -> Result<Option<String>, ValidateError> {
    if folder.join(format!("kernels_{run}_dense.csv")).is_file() {
        return Ok(Some(run.to_owned()));
    }
    let unreadable = |source| FileError::open(folder.display().to_string(), source);
    let mut filed = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name();
        let name = file.to_str().and_then(|file| file.strip_prefix("kernels_")?.strip_suffix("_dense.csv"));
        filed.extend(name.map(str::to_owned));
    }
    filed.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let is_part = |name: &&String| format!("_{run}_").contains(&format!("_{name}_"));
    let of_meta = |name: &&String| is_of(name, meta);
    Ok(filed.iter().find(is_part).or_else(|| filed.iter().find(of_meta)).cloned())
}

/// Whether tables filed under `name` are of the card, model and ranks of a `meta.json`.
fn is_of(name: &str, meta: &Meta) -> bool {
    let Some(card) = meta.hardware.as_ref().and_then(|hardware| card_of_device(&hardware.device_name)) else {
        return false;
    };
    let ranks = meta.engine_kwargs.tensor_parallel_size.unwrap_or(1);
    let of_card = |part: &str| part.eq_ignore_ascii_case(card.short);
    let of_model: Vec<&str> = name.split('_').filter(|part| !of_card(part) && rank_part(part).is_none()).collect();
    let served = words(&meta.model);
    let mut model = of_model.iter().flat_map(|part| words(part)).peekable();
    card_of(name) == Some(card)
        && ranks_of(name).unwrap_or(1) == ranks
        && model.peek().is_some()
        && model.all(|word| served.contains(&word))
}

/// `2` of `tp2`.
fn rank_part(part: &str) -> Option<u32> {
    part.strip_prefix("tp")?.parse().ok()
}

fn ranks_of(name: &str) -> Option<u32> {
    name.split('_').find_map(rank_part)
}

/// A name's letters and its numbers with the letter of their size: `llama8b` is `llama` and `8b`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.to_ascii_lowercase().chars() {
        let continues = (c.is_ascii_digit() && before.is_ascii_digit())
            || (c.is_ascii_alphabetic() && before.is_ascii_alphanumeric());
        match words.last_mut() {
            Some(word) if continues => word.push(c),
            _ if c.is_ascii_alphanumeric() => words.push(c.into()),
            _ => {}
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_and_sizes() {
        assert_eq!(words("llama8b"), ["llama", "8b"]);
        assert_eq!(words("meta-llama/Llama-3.1-8B"), ["meta", "llama", "llama", "3", "1", "8b"]);
        assert_eq!(words("qwen3-32b"), ["qwen", "3", "32b"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn ranks_are_a_part_of_a_name() {
        assert_eq!(
            (ranks_of("rtx4090_llama8b_tp2_night"), ranks_of("my run x"), ranks_of("tpu_a")),
            (Some(2), None, None)
        );
    }
}
