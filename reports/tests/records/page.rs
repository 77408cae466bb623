//! Pages: their structure as snapshots, and that no name can leave its place.

use reports::page::{self, CandidateLatencies, Document, Part, RunPage, StairEdge, Staircase};
use reports::{HistoryReport, RunReport};

use crate::samples;

/// A run with everything beside it.
fn part(report: &RunReport) -> Part {
    let history = HistoryReport {
        candidates: report
            .candidates
            .iter()
            .map(|candidate| {
                let mut history = samples::history().candidates.remove(0);
                history.candidate.clone_from(&candidate.name);
                history
            })
            .collect(),
    };
    let latencies = report
        .candidates
        .iter()
        .map(|candidate| {
            let mut found = CandidateLatencies { candidate: candidate.name.clone(), ..CandidateLatencies::default() };
            for at in 1..=100 {
                found.ttft.add(10.0 * f64::from(at));
                found.tpot.add(20.0 + f64::from(at % 10));
            }
            found
        })
        .collect();
    let staircase = Staircase {
        knots: vec![[1.0, 9_000.0], [8.0, 9_100.0], [9.0, 9_900.0], [16.0, 9_950.0], [1_024.0, 50_000.0]],
        edges: vec![StairEdge { below: 8.0, above: 9.0, jump_us: 800.0, percent: 8.8 }],
    };
    let page = RunPage {
        folder: "results".into(),
        report,
        history: Ok(history),
        latencies: Ok(latencies),
        staircase: Ok(Some(staircase)),
    };
    page.part().expect("drawings in memory do not fail")
}

fn html(parts: Vec<Part>) -> String {
    let mut text = Vec::new();
    page::html(&Document::of(parts), &mut text).expect("a vector takes it all");
    String::from_utf8(text).expect("UTF-8")
}

fn markdown(parts: Vec<Part>) -> String {
    let mut text = Vec::new();
    page::markdown(&Document::of(parts), &mut text).expect("a vector takes it all");
    String::from_utf8(text).expect("UTF-8")
}

/// One tag of a page, or the text between two.
enum Piece<'a> {
    Open(&'a str, &'a str),
    Close(&'a str),
    Text(&'a str),
}

/// A page in pieces. Pages are written by one writer, so that this need not know all of HTML.
fn pieces(html: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        if !rest[..at].trim().is_empty() {
            found.push(Piece::Text(rest[..at].trim()));
        }
        let tag = &rest[at + 1..];
        let end = tag.find('>').expect("every tag ends");
        let (tag, after) = (&tag[..end], &tag[end + 1..]);
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or(tag);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            found.push(Piece::Close(name));
        } else if !tag.starts_with('!') {
            found.push(Piece::Open(name, tag));
            if tag.ends_with('/') {
                found.push(Piece::Close(name));
            }
            // A style sheet is not text.
            if name == "style" {
                rest = &rest[rest.find("</style").expect("it ends")..];
            }
        }
    }
    found
}

/// Tags that hold nothing and are not closed.
const VOID: [&str; 2] = ["meta", "link"];

/// Headings, labels, captions and the heads of tables, one a line, indented by what they stand in; texts of charts and cells
/// of tables are left out unless asked for.
fn structure(html: &str) -> String {
    const SHOWN: [&str; 12] =
        ["title", "h1", "h2", "h3", "nav", "main", "section", "figure", "figcaption", "caption", "summary", "thead"];
    let mut open: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for piece in pieces(html) {
        match piece {
            Piece::Open(name, _) if VOID.contains(&name) => {}
            Piece::Open(name, tag) => {
                if ["main", "nav", "section", "figure"].contains(&name) || tag.contains("class=\"chart\"") {
                    lines.push(format!("{}<{name}>", "  ".repeat(open.len().saturating_sub(2))));
                }
                open.push(name);
            }
            Piece::Close(name) => assert_eq!(open.pop(), Some(name), "tags are balanced"),
            Piece::Text(text) => {
                let shown = open.iter().rev().take(3).find(|name| SHOWN.contains(name));
                if let Some(name) = shown.filter(|name| !["main", "section", "figure", "nav"].contains(name)) {
                    let (depth, name) = (open.len().saturating_sub(2), *name);
                    lines.push(format!("{}{name}: {text}", "  ".repeat(depth)));
                }
            }
        }
    }
    assert!(open.is_empty(), "tags are balanced: {open:?}");
    lines.join("\n")
}

/// The texts of each chart: labels of axes, legends, ticks.
fn chart_texts(html: &str) -> String {
    let mut charts: Vec<Vec<&str>> = Vec::new();
    let (mut inside, mut label) = (false, false);
    for piece in pieces(html) {
        match piece {
            Piece::Open("svg", tag) if tag.contains("class=\"chart\"") => {
                assert!(tag.contains("role=\"img\"") && tag.contains("aria-labelledby"), "{tag}");
                charts.push(Vec::new());
                inside = true;
            }
            Piece::Close("svg") => inside = false,
            Piece::Open(name, _) => label = ["text", "title", "desc"].contains(&name),
            Piece::Text(text) if inside && label => charts.last_mut().expect("a chart is open").push(text),
            Piece::Text(_) | Piece::Close(_) => {}
        }
    }
    charts.iter().map(|texts| texts.join(" | ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_page_of_a_run() {
    let page = html(vec![part(&samples::run())]);
    insta::assert_snapshot!("page_structure", structure(&page));
    insta::assert_snapshot!("page_charts", chart_texts(&page));
    insta::assert_snapshot!("page_markdown", markdown(vec![part(&samples::run())]));
}

#[test]
fn over_seeds_figures_have_intervals() {
    insta::assert_snapshot!("page_markdown_over_seeds", markdown(vec![part(&samples::run_over_seeds())]));
}

#[test]
fn the_page_of_a_comparison_and_of_a_proposal() {
    let proposal = page::proposal("answer.json", &samples::propose()).expect("drawn");
    insta::assert_snapshot!("page_proposal", structure(&html(vec![proposal.clone()])));
    insta::assert_snapshot!("page_markdown_proposal", markdown(vec![proposal]));
    let comparison = page::comparison(&samples::comparison());
    insta::assert_snapshot!("page_markdown_comparison", markdown(vec![comparison.clone()]));
    structure(&html(vec![comparison]));
}

/// Several inputs: one heading of first order, a part each, headings one order lower, and no name twice.
#[test]
fn several_inputs_make_one_page() {
    let parts = vec![part(&samples::run()), part(&samples::run_over_seeds())];
    let page = html(parts);
    structure(&page);
    assert_eq!(page.matches("<h1").count(), 1);
    assert_eq!(page.matches("<h2").count(), 2);
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id names one place");
}

#[test]
fn names_are_text_wherever_they_stand() {
    const HOSTILE: &str = "</title></svg></script><script>alert(1)</script>\" onload='alert(2)' &amp; \u{1b}[31m";
    let mut run = samples::run();
    run.scenario.name = HOSTILE.into();
    run.profile.name = HOSTILE.into();
    run.profile.groups[0].source = HOSTILE.into();
    run.warnings[0].message = HOSTILE.into();
    run.warnings[0].candidate = Some(HOSTILE.into());
    run.command.push(HOSTILE.into());
    run.candidates[0].name = HOSTILE.into();
    let page = html(vec![part(&run)]);
    structure(&page);
    for piece in pieces(&page) {
        if let Piece::Open(name, tag) = piece {
            assert_ne!(name, "script");
            // What stands between double quotes is a value.
            let outside: String = tag.split('"').step_by(2).collect();
            assert!(!outside.contains("onload"), "{tag}");
        }
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!page.contains('\u{1b}'), "control characters have no place in HTML");
    let short = markdown(vec![part(&run)]);
    assert!(!short.lines().filter(|line| !line.starts_with("sim ")).any(|line| line.contains("<script>")), "{short}");
}

/// Nothing is loaded, and nothing runs.
#[test]
fn a_page_is_whole_by_itself() {
    let page = html(vec![part(&samples::run())]);
    for forbidden in ["<script", "http-equiv=\"refresh", "@import", "url(http", "<img", "<iframe", " src=", " onclick"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for link in page.split(" href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:,"), "{}", &link[..40]);
    }
}

/// A colour that the style sheet does not know would be the same on a dark page.
#[test]
fn every_colour_of_a_chart_has_its_shade_on_a_dark_page() {
    let page = html(vec![part(&samples::run())]);
    let dark = page.split("prefers-color-scheme: dark").last().expect("rules of a dark page");
    let charts = page.split("<svg class=\"chart\"").skip(1).filter_map(|rest| rest.split("</svg>").next());
    let mut colours: Vec<&str> = charts
        .flat_map(|chart| chart.split(['"']))
        .filter(|value| value.len() == 7 && value.starts_with('#'))
        .collect();
    colours.sort_unstable();
    colours.dedup();
    assert!(colours.len() > 10, "{colours:?}");
    for colour in colours {
        assert!(dark.contains(&format!("[fill=\"{colour}\"]")), "{colour}");
    }
}

#[test]
fn what_is_missing_is_said_with_what_makes_it() {
    let report = samples::run();
    let missing = |name: &str| format!("{name} is not in the folder; `sim run --out DIR` writes it");
    let page = RunPage {
        folder: "results".into(),
        report: &report,
        history: Err(missing("history.json")),
        latencies: Err(missing("requests.csv")),
        staircase: Err(missing("profile.toml")),
    };
    let page = html(vec![page.part().expect("drawn")]);
    structure(&page);
    assert_eq!(page.matches("Not shown: ").count(), 4, "staircase, batch sizes, timeline, latencies");
}

/// Figures that are not there, of a run in which nothing happened.
#[test]
fn an_empty_run_has_a_page() {
    let mut run = samples::run();
    for candidate in &mut run.candidates {
        let name = candidate.name.clone();
        *candidate = reports::CandidateReport { name, ..reports::CandidateReport::default() };
    }
    let page = RunPage {
        folder: "results".into(),
        report: &run,
        history: Ok(HistoryReport { candidates: Vec::new() }),
        latencies: Ok(Vec::new()),
        staircase: Ok(None),
    };
    let page = html(vec![page.part().expect("drawn")]);
    structure(&page);
    assert_eq!(page.matches("nothing ran").count(), 2 * run.candidates.len(), "device and host time are not 0.00");
}

/// The table of that caption.
fn table<'a>(page: &'a str, caption: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("{caption}</caption>")).unwrap_or_else(|| panic!("no table `{caption}`"));
    rest.split("</table>").next().unwrap_or_default()
}

#[test]
fn tables_of_latencies_are_the_figures_of_the_run() {
    let mut run = samples::run();
    run.candidates[0].p99_ttft_ms = 1_234.5.into();
    let page = html(vec![part(&run)]);
    assert!(table(&page, "TTFT of finished requests").contains("1,234.5"));
    let over_seeds = html(vec![part(&samples::run_over_seeds())]);
    assert!(table(&over_seeds, "TTFT of finished requests: means over 3 seeds").contains('\u{b1}'));
}

/// Charts are drawn of the first candidates, tables hold them all.
#[test]
fn many_candidates_are_in_the_tables() {
    let mut run = samples::run();
    let first = run.candidates[0].clone();
    run.candidates =
        (0..30).map(|place| reports::CandidateReport { name: format!("one {place}."), ..first.clone() }).collect();
    let page = html(vec![part(&run)]);
    structure(&page);
    for caption in [
        "Key figures",
        "TTFT of finished requests",
        "TPOT of finished requests",
        "device time, ms a step",
        "start-up, s",
    ] {
        let table = table(&page, caption);
        for place in 0..30 {
            assert!(table.contains(&format!(" one {place}.<")), "{caption}: {place}");
        }
    }
    assert!(page.contains("the figures of the other 22 are in the tables of"));
}
