//! Where the costs come from, and how the run is repeated.

use super::RunPage;
use crate::page::document::{Block, Section, Table};
use crate::{GroupReport, ProfileReport};

/// The provenance of every cost group.
pub(in crate::page) fn provenance(profile: &ProfileReport) -> Section {
    let subject = [Some(&profile.name), profile.device.as_ref(), profile.model.as_ref()];
    let subject = subject.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut blocks = vec![Block::Text(format!("Profile {subject}; host and device {}.", profile.overlap))];
    let mut table = groups(&profile.groups);
    "Cost groups that the result used".clone_into(&mut table.caption);
    blocks.push(Block::Table(table));
    blocks.push(Block::Text(
        "Measured: by calibrate on the card. Imported: somebody's published measurement. Derived: computed from those. \
         Declared: a planning figure. Double: made by the test double, never a measurement."
            .to_owned(),
    ));
    Section::new("Where the costs come from", blocks)
}

/// Groups with their provenance.
pub(in crate::page) fn groups(groups: &[GroupReport]) -> Table {
    let columns = ["group", "kind", "source", "licence", "valid range", "method", "stated error"];
    let mut table = Table::of_words("Cost groups", &columns);
    for group in groups {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([
            group.group.clone(),
            group.kind.to_string(),
            group.source.clone(),
            or_none(&group.licence),
            or_none(&group.valid_range),
            or_none(&group.method),
            or_none(&group.stated_error),
        ]);
    }
    table
}

/// Commands, hashes, seeds and version.
pub(super) fn reproduce(page: &RunPage<'_>) -> Section {
    let report = page.report;
    let mut blocks = Vec::new();
    if report.command.is_empty() {
        blocks.push(Block::Missing("the command: run.json does not hold it".to_owned()));
    } else {
        blocks.push(Block::Lines(shell(&report.command)));
    }
    let seeds = report.seeds.clone().unwrap_or_else(|| vec![report.seed]);
    let mut table = Table::of_words("What the result is of", &["", "value"]);
    table.row(["Rungwise".to_owned(), report.version.clone()]);
    table.row(["scenario, SHA-256".to_owned(), report.scenario.sha256.clone()]);
    table.row(["profile, SHA-256".to_owned(), report.profile.sha256.clone()]);
    table.row([if seeds.len() == 1 { "seed" } else { "seeds" }.to_owned(), super::list(&seeds)]);
    table.row(["folder".to_owned(), page.folder.clone()]);
    blocks.push(Block::Table(table));
    Section::brief("Reproduce it", blocks)
}

/// Words of a command as a shell takes them.
fn shell(words: &[String]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c));
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["sim", "run", "a b.toml", "--candidate", "it's", "$(rm)", ""].map(str::to_owned);
        assert_eq!(shell(&words), r"sim run 'a b.toml' --candidate 'it'\''s' '$(rm)' ''");
    }
}
