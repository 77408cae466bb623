//! `scenarios/field/README.md`.

use std::fmt::Write;

use super::answer::Answers;
use super::comparison::{Comparison, compare};
use super::file::{Ask, Cases, Figure, How, Report};

/// What stands above the tables.
const INTRODUCTION: &str = "\
# Public reports beside this program's answers

What people reported of CUDA graphs in servers of their own, and what the commands of this repository say to it. A test runs
every command below, and compares this page with what they print; it is made of `cases.toml`.

What a report does not state is assumed: the header of each scenario says what, and the profiles in `profiles/` say of each
group of costs what is from the report. A figure that was put in and comes back proves nothing, so each row says how ours came
about:

- *rule*: by the engine's rules alone; it must be equal.
- *predicted*: by costs and traffic, and the report's own figure is in neither.
- *planned*: the same with planning figures, such as 24 MiB a descriptor, for what the report does not give: this is how wrong a
  plan can be before anything is measured.
- *put in*: the report's figure is in the costs or the traffic, or follows from what is.

Times, rates and sizes may be 10 % off, shares a point and changes in percent five points: limits for all rows alike. What is
further off is **bold** and has its reason below the table, or says that none was found; no cost was fitted to a row that says
*predicted*. Of several seeds the means stand here. The figures of a sweep are in `reports.jsonl` of its `--out DIR`.
";

/// A report and how its figures compare.
pub(super) struct Compared<'a> {
    pub(super) report: &'a Report,
    /// Of each command in turn.
    pub(super) asks: Vec<Vec<Row<'a>>>,
}

/// A figure and how it compares.
pub(super) struct Row<'a> {
    pub(super) figure: &'a Figure,
    pub(super) comparison: Comparison,
}

impl<'a> Compared<'a> {
    /// Every report, its commands run.
    pub(super) fn all(cases: &'a Cases) -> Vec<Self> {
        let mut answers = Answers::default();
        let mut rows = |ask: &'a Ask| -> Vec<Row<'a>> {
            let mut row = |figure| Row { figure, comparison: compare(figure, &answers.figure(ask, figure)) };
            ask.figures.iter().map(&mut row).collect()
        };
        let mut compared = |report: &'a Report| Self { report, asks: report.asks.iter().map(&mut rows).collect() };
        cases.reports.iter().map(&mut compared).collect()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row<'a>> {
        self.asks.iter().flatten()
    }

    /// How many figures are compared, and how many of them miss.
    fn counts(&self) -> (usize, usize) {
        (self.rows().count(), self.rows().filter(|row| row.comparison.misses).count())
    }
}

/// The whole page.
pub(super) fn page(all: &[Compared]) -> String {
    let mut page = INTRODUCTION.to_owned();
    summary(&mut page, all);
    index(&mut page, all);
    unanswered(&mut page, all);
    for compared in all.iter().filter(|compared| !compared.asks.is_empty()) {
        section(&mut page, compared);
    }
    page
}

fn line(page: &mut String, line: impl std::fmt::Display) {
    writeln!(page, "{line}").expect("a string takes all");
}

/// How many figures are right, by how they came about.
fn summary(page: &mut String, all: &[Compared]) {
    line(page, "\n| how | figures | right | off |\n|---|---|---|---|");
    for how in [How::Rule, How::Predicted, How::Planned, How::PutIn] {
        let rows = || all.iter().flat_map(Compared::rows).filter(|row| row.figure.how == how);
        let off = rows().filter(|row| row.comparison.misses).count();
        line(page, format_args!("| {} | {} | {} | {off} |", how.word(), rows().count(), rows().count() - off));
    }
}

fn index(page: &mut String, all: &[Compared]) {
    line(page, "\n## Answered\n\n| report | question | figures | off |\n|---|---|---|---|");
    for compared in all.iter().filter(|compared| !compared.asks.is_empty()) {
        let Report { number, title, question, .. } = compared.report;
        let (figures, off) = compared.counts();
        line(
            page,
            format_args!("| [{number}](#{}) | {title}: {question} | {figures} | {off} |", number.to_lowercase()),
        );
    }
}

fn unanswered(page: &mut String, all: &[Compared]) {
    line(page, "\n## Not answered\n\n| report | what it says | why there is no answer |\n|---|---|---|");
    for report in all.iter().map(|compared| compared.report) {
        if let Some(reason) = &report.unanswered {
            let Report { number, title, setting, .. } = report;
            line(page, format_args!("| {number} | {title} ({}): {setting} | {reason} |", published(report)));
        }
    }
}

fn section(page: &mut String, compared: &Compared) {
    let Report { number, title, setting, question, answer, .. } = compared.report;
    line(page, format_args!("\n## {number}\n\n**{title}.** {setting} ({}).\n", published(compared.report)));
    line(page, format_args!("*{question}* {answer}\n"));
    for (index, ask) in (1..).zip(&compared.report.asks) {
        let minus = ask.minus.as_ref().map(|minus| format!(", minus `{minus}`")).unwrap_or_default();
        line(page, format_args!("{index}. `{}`{minus}", ask.command));
    }
    line(page, "\n| by | figure | report | here | difference | how |\n|---|---|---|---|---|---|");
    for (index, rows) in (1..).zip(&compared.asks) {
        for Row { figure, comparison } in rows {
            let Comparison { report, ours, difference, misses } = comparison;
            let bold = if *misses { "**" } else { "" };
            let how = figure.how.word();
            line(
                page,
                format_args!("| {index} | {} | {report} | {ours} | {bold}{difference}{bold} | {how} |", figure.what),
            );
        }
    }
    let reasons: Vec<&Row> = compared.rows().filter(|row| row.figure.why.is_some()).collect();
    if !reasons.is_empty() {
        line(page, "");
    }
    for row in reasons {
        line(page, format_args!("- {}: {}.", row.figure.what, row.figure.why.as_deref().unwrap_or_default()));
    }
}

/// Where and when, with links.
fn published(report: &Report) -> String {
    let links: Vec<String> = report.sources.iter().map(|source| format!("[{}]({source})", short(source))).collect();
    format!("{}, {}", links.join(", "), report.date)
}

/// `vllm-project/vllm#56975` of an address at GitHub.
fn short(source: &str) -> String {
    let path = source.strip_prefix("https://github.com/").expect("an address at GitHub");
    let mut parts = path.split('/');
    let mut next = || parts.next().expect("owner, repository, kind and number");
    let (owner, repository, _kind, number) = (next(), next(), next(), next());
    format!("{owner}/{repository}#{number}")
}
