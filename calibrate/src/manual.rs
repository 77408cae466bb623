//! Manual pages of a command line, in the language of `man`.

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its file: `sim-run.1`.
    pub file: String,
    /// What `man` reads.
    pub text: String,
}

/// The pages of a program: its own first, then one for each of its commands that help shows.
pub fn pages(command: Command) -> Vec<Page> {
    let mut command = command.disable_help_subcommand(true);
    // Names of commands hold the program's from here on: `sim-run`.
    command.build();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let commands: Vec<Command> = [command.clone()].into_iter().chain(shown).collect();
    commands.into_iter().map(page).collect()
}

fn page(command: Command) -> Page {
    let closing = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let man = Man::new(command.after_help(Resettable::Reset).after_long_help(Resettable::Reset));
    let man = man.source(concat!("Rungwise ", env!("CARGO_PKG_VERSION"))).manual("Rungwise");
    let mut text = Vec::new();
    man.render(&mut text).expect("memory takes what is written");
    let head = String::from_utf8(text).expect("a page is text, as help is");
    Page { file: man.get_filename(), text: head + &sections(&closing.unwrap_or_default()).to_roff() }
}

/// What stands at the end of a help text, line by line as it is there: examples and tables would be run together otherwise.
/// A paragraph under a few words with a colon is a section of that name.
fn sections(closing: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_titled = true;
    for paragraph in closing.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let is_title = |title: &&str| !rest.is_empty() && title.split(' ').count() <= TITLE_WORDS_MAX;
        let lines = match first.strip_suffix(':').filter(is_title) {
            Some(title) => {
                roff.control("SH", [heading(title).as_str()]);
                is_titled = true;
                rest
            }
            None if is_titled => {
                roff.control("SH", ["NOTES"]);
                is_titled = false;
                paragraph
            }
            None => {
                roff.control("PP", []);
                paragraph
            }
        };
        roff.control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

/// More words than these are a sentence, whose names must keep their case.
const TITLE_WORDS_MAX: usize = 5;

/// A title in capitals, as manual pages have them; options stay as they are typed.
fn heading(title: &str) -> String {
    let words = title.split(' ').map(|word| if word.starts_with('-') { word.to_owned() } else { word.to_uppercase() });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn a_page_for_the_program_and_for_each_command_of_its_help() {
        let run = Command::new("run")
            .about("Runs it")
            .arg(Arg::new("seeds").long("seeds").help("How many"))
            .after_help("Examples:\n  tool run --seeds 3\n      Three.\n\n.dots and 'quotes' stay.\n\nSo does this.");
        let command =
            Command::new("tool").version("0.1.0").subcommand(run).subcommand(Command::new("perform-misuse").hide(true));
        let pages = pages(command);
        assert_eq!(pages.iter().map(|page| page.file.as_str()).collect::<Vec<_>>(), ["tool.1", "tool-run.1"]);
        assert!(pages[0].text.contains("tool\\-run(1)") && !pages[0].text.contains("misuse"));
        let run = &pages[1].text;
        assert!(run.contains("\\fB\\-\\-seeds\\fR") && run.contains("tool\\-run \\- Runs it"), "{run}");
        let examples = ".SH EXAMPLES\n.nf\n  tool run \\-\\-seeds 3\n      Three.\n.fi\n";
        assert!(run.contains(examples), "{run}");
        assert!(
            run.ends_with(".SH NOTES\n.nf\n\\&.dots and 'quotes' stay.\n.fi\n.PP\n.nf\nSo does this.\n.fi\n"),
            "{run}"
        );
    }

    #[test]
    fn names_keep_their_case() {
        let page =
            sections("The folder holds for every run NAME:\n  a_NAME.csv\n\nLogs, for --onto:\n  lines\n").to_roff();
        assert!(page.contains(".SH NOTES\n.nf\nThe folder holds for every run NAME:\n"), "{page}");
        assert!(page.contains(".SH \"LOGS, FOR --onto\"\n"), "{page}");
    }
}
