//! A page as one HTML file: no script, nothing loaded, readable without colours, in print and read aloud.

use std::io::{self, Write};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::style_rules;
use super::document::{Block, Document, Figure, Part, Row, Section, Table};
use crate::Warning;

/// What the browser may do: style the page, and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// Writes the page.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn html(document: &Document, sink: &mut impl Write) -> io::Result<()> {
    let several = document.parts.len() > 1;
    let style = PreEscaped(format!("{}{}", include_str!("style.css"), style_rules()));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (document.title) }
                link rel="icon" href="data:,";
                style { (style) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                (hatch())
                header {
                    h1 { (document.title) }
                    @if let [part] = &document.parts[..] { (facts(part)) }
                }
                (contents(document))
                main id="content" tabindex="-1" {
                    @for (place, part) in document.parts.iter().enumerate() {
                        @if several {
                            section.part aria-labelledby=(format!("part-{place}")) {
                                h2 id=(format!("part-{place}")) { (part.title) }
                                (facts(part))
                                (body(part, place, 3))
                            }
                        } @else {
                            (body(part, place, 2))
                        }
                    }
                }
                footer {
                    p { "Written by Rungwise " (env!("CARGO_PKG_VERSION")) ". Everything on this page is in this file." }
                }
            }
        }
    };
    // Control characters out of names have no place in HTML, and escaping leaves them.
    let page = page.into_string().replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?");
    sink.write_all(page.as_bytes())?;
    sink.write_all(b"\n")
}

/// The hatch of steps without a graph, for all charts.
fn hatch() -> Markup {
    html! {
        svg.patterns width="0" height="0" aria-hidden="true" focusable="false" {
            pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                rect.ground width="6" height="6" {}
                rect.stripe width="1.5" height="6" {}
            }
        }
    }
}

fn contents(document: &Document) -> Markup {
    let several = document.parts.len() > 1;
    html! {
        nav aria-label="Contents" {
            @for (place, part) in document.parts.iter().enumerate() {
                @if several { p { a href=(format!("#part-{place}")) { (part.title) } } }
                ul {
                    @for (number, section) in part.sections.iter().enumerate() {
                        li { a href=(format!("#{}", section_id(place, number))) { (section.title) } }
                    }
                }
            }
        }
    }
}

fn section_id(part: usize, section: usize) -> String {
    format!("section-{part}-{section}")
}

fn facts(part: &Part) -> Markup {
    html! {
        @if !part.facts.is_empty() {
            dl.facts {
                @for (name, text) in &part.facts {
                    div { dt { (name) } dd { (text) } }
                }
            }
        }
    }
}

fn body(part: &Part, place: usize, level: u8) -> Markup {
    html! {
        @if !part.verdict.is_empty() {
            p.verdict { strong { "Verdict: " } (part.verdict) }
        }
        @for (number, section) in part.sections.iter().enumerate() {
            (section_markup(section, &section_id(place, number), level))
        }
    }
}

fn section_markup(section: &Section, id: &str, level: u8) -> Markup {
    html! {
        section aria-labelledby=(id) {
            @if level == 2 { h2 id=(id) { (section.title) } } @else { h3 id=(id) { (section.title) } }
            @for (number, block) in section.blocks.iter().enumerate() {
                (block_markup(block, &format!("{id}-{number}")))
            }
        }
    }
}

fn block_markup(block: &Block, id: &str) -> Markup {
    match block {
        Block::Text(text) => html! { p { (text) } },
        Block::Missing(text) => html! { p.missing { strong { "Not shown: " } (text) } },
        Block::Warnings(warnings) => warnings_markup(warnings),
        Block::Table(table) => table_markup(table, id),
        Block::Figure(figure) => figure_markup(figure, id),
        Block::Folded(summary, blocks) => html! {
            details {
                summary { (summary) }
                @for (number, block) in blocks.iter().enumerate() {
                    (block_markup(block, &format!("{id}-{number}")))
                }
            }
        },
        Block::Lines(lines) => html! {
            div.scroll tabindex="0" role="region" aria-label="Lines to copy" { pre { code { (lines) } } }
        },
    }
}

fn warnings_markup(warnings: &[Warning]) -> Markup {
    html! {
        @if warnings.is_empty() {
            p { "None." }
        } @else {
            ul.warnings {
                @for warning in warnings {
                    li {
                        code { (warning.code) } " "
                        @if let Some(candidate) = &warning.candidate { strong { (candidate) } ": " }
                        (warning.message)
                    }
                }
            }
        }
    }
}

fn figure_markup(figure: &Figure, id: &str) -> Markup {
    let (title, text) = (format!("{id}-title"), format!("{id}-text"));
    let size = format!("0 0 960 {}", figure.svg.height);
    html! {
        figure {
            div.scroll tabindex="0" role="region" aria-label=(format!("Chart: {}", figure.caption)) {
                svg.chart viewBox=(size) role="img" aria-labelledby=(format!("{title} {text}")) xmlns="http://www.w3.org/2000/svg" {
                    title id=(title) { (figure.caption) }
                    desc id=(text) { (figure.description) }
                    (PreEscaped(&figure.svg.content))
                }
            }
            figcaption { strong { (figure.caption) } " " (figure.description) }
            details {
                summary { "The figures of this chart" }
                (table_markup(&figure.table, &format!("{id}-figures")))
            }
        }
    }
}

fn table_markup(table: &Table, id: &str) -> Markup {
    let caption = format!("{id}-caption");
    let class = if table.words { "words" } else { "numbers" };
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby=(caption) {
            table class=(class) {
                caption id=(caption) { (table.caption) }
                thead { tr { @for column in &table.columns { th scope="col" { (column) } } } }
                @for rows in groups(&table.rows) {
                    tbody {
                        @for row in rows {
                            @match row {
                                Row::Group(name) => {
                                    tr { th.group scope="rowgroup" colspan=(table.columns.len()) { (name) } }
                                }
                                Row::Cells(cells) => {
                                    tr {
                                        @for (place, cell) in cells.iter().enumerate() {
                                            @if place == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Rows, cut before each heading.
fn groups(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|_, next| !matches!(next, Row::Group(_)))
}
