//! The short form of a page as Markdown, for a pull request: verdict, main tables, warnings, commands.

use std::io::{self, Write};

use super::document::{Block, Document, Part, Row, Table};

/// Writes the short form.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn markdown(document: &Document, sink: &mut impl Write) -> io::Result<()> {
    for (place, part) in document.parts.iter().enumerate() {
        if place > 0 {
            writeln!(sink)?;
        }
        part_lines(part, sink)?;
    }
    Ok(())
}

fn part_lines(part: &Part, sink: &mut impl Write) -> io::Result<()> {
    writeln!(sink, "## {}\n", inline(&part.title))?;
    if !part.verdict.is_empty() {
        writeln!(sink, "**Verdict:** {}\n", inline(&part.verdict))?;
    }
    for (name, text) in &part.facts {
        writeln!(sink, "- {}: {}", inline(name), inline(text))?;
    }
    for section in part.sections.iter().filter(|section| section.brief) {
        writeln!(sink, "\n### {}\n", inline(&section.title))?;
        for block in &section.blocks {
            block_lines(block, sink)?;
        }
    }
    Ok(())
}

fn block_lines(block: &Block, sink: &mut impl Write) -> io::Result<()> {
    match block {
        Block::Text(text) => writeln!(sink, "{}\n", inline(text)),
        Block::Missing(text) => writeln!(sink, "*Not shown:* {}\n", inline(text)),
        Block::Warnings(warnings) if warnings.is_empty() => writeln!(sink, "None."),
        Block::Warnings(warnings) => warnings.iter().try_for_each(|warning| {
            let about = warning.candidate.as_ref().map(|name| format!("**{}**: ", inline(name))).unwrap_or_default();
            writeln!(sink, "- {} {about}{}", code(&warning.code), inline(&warning.message))
        }),
        Block::Table(table) => table_lines(table, sink),
        // A chart is for the page; what it shows stands in its tables.
        Block::Figure(_) => Ok(()),
        Block::Folded(summary, blocks) => {
            writeln!(sink, "<details><summary>{}</summary>\n", inline(summary))?;
            blocks.iter().try_for_each(|block| block_lines(block, sink))?;
            writeln!(sink, "\n</details>\n")
        }
        Block::Lines(lines) => {
            let fence = "`".repeat(longest_run(lines, '`').max(2) + 1);
            let lines = lines.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?");
            writeln!(sink, "{fence}text\n{}\n{fence}", lines.trim_end())
        }
    }
}

fn table_lines(table: &Table, sink: &mut impl Write) -> io::Result<()> {
    writeln!(sink, "{}\n", inline(&table.caption))?;
    let row = |cells: &mut dyn Iterator<Item = String>| format!("| {} |", cells.collect::<Vec<_>>().join(" | "));
    writeln!(sink, "{}", row(&mut table.columns.iter().map(|column| cell(column))))?;
    let number = if table.words { "---" } else { "---:" };
    let rules = (0..table.columns.len()).map(|place| if place == 0 { "---" } else { number }.to_owned());
    writeln!(sink, "{}", row(&mut rules.into_iter()))?;
    for line in &table.rows {
        match line {
            Row::Group(name) => {
                let rest = (1..table.columns.len()).map(|_| String::new());
                writeln!(sink, "{}", row(&mut std::iter::once(format!("**{}**", cell(name))).chain(rest)))?;
            }
            Row::Cells(cells) => writeln!(sink, "{}", row(&mut cells.iter().map(|text| cell(text))))?,
        }
    }
    writeln!(sink)
}

/// A text in a line of Markdown: nothing in it is markup, a mention or a link.
fn inline(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            match c {
                '&' => line.push_str("&amp;"),
                '<' => line.push_str("&lt;"),
                '>' => line.push_str("&gt;"),
                // Before a name an @ would call somebody, and a # an issue.
                '@' => line.push_str("&#64;"),
                '#' => line.push_str("&#35;"),
                '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                    line.push('\\');
                    line.push(c);
                }
                c if c.is_control() => line.push('?'),
                c => line.push(c),
            }
        }
    }
    line
}

/// A code of a warning, as code where it is one word of letters, digits and dashes; else it is text like any other.
fn code(text: &str) -> String {
    let is_word = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if is_word { format!("`{text}`") } else { inline(text) }
}

/// A text in a cell: its lines one below the other, its indent kept.
fn cell(text: &str) -> String {
    let indent = text.len() - text.trim_start_matches(' ').len();
    "&nbsp;".repeat(indent) + &text.lines().map(inline).collect::<Vec<_>>().join("<br>")
}

fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(inline("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(inline("a|b *c* _d_ `e` [f](g)"), r"a\|b \*c\* \_d\_ \`e\` \[f\](g)");
        assert_eq!(inline("@someone #12\n# no heading"), "&#64;someone &#35;12 &#35; no heading");
        assert_eq!(cell("  one\ntwo"), "&nbsp;&nbsp;one<br>two");
    }

    #[test]
    fn codes_cannot_leave_their_span() {
        assert_eq!(code("other_seeds"), "`other_seeds`");
        assert_eq!(code("a`b\n\n# c \u{1b}[31m<script>"), r"a\`b &#35; c ?\[31m&lt;script&gt;");
        assert_eq!(code(""), "");
    }

    #[test]
    fn lines_cannot_leave_their_fence() {
        let mut text = Vec::new();
        block_lines(&Block::Lines("a ```` b\n```\n# heading".into()), &mut text).expect("a vector takes it all");
        assert_eq!(String::from_utf8(text).expect("text"), "`````text\na ```` b\n```\n# heading\n`````\n");
        let mut text = Vec::new();
        block_lines(&Block::Lines("sim \u{1b}]0;title\u{7} run".into()), &mut text).expect("a vector takes it all");
        assert_eq!(String::from_utf8(text).expect("text"), "```text\nsim ?]0;title? run\n```\n");
    }
}
