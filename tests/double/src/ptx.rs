//! What the double must know of a PTX text: version, target, and of each kernel its parameters and shared memory.

use std::collections::{BTreeMap, BTreeSet};

/// A PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ptx {
    /// `.version`.
    pub(crate) version: (u32, u32),
    /// Number of the `.target`, such as 80 of `sm_80`.
    pub(crate) target: u32,
    pub(crate) entries: Vec<Entry>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) symbol: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) static_shared_bytes: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// Whether the kernel uses it as an address of global memory.
    pub(crate) is_pointer: bool,
}

impl Entry {
    /// Length of the parameter buffer.
    pub(crate) fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }
}

impl Ptx {
    /// Reads a text; none if it is no PTX.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = without_comments(text);
        let (major, minor) = directive(&text, ".version")?.split_once('.')?;
        let version = (major.parse().ok()?, minor.parse().ok()?);
        let target = directive(&text, ".target")?.strip_prefix("sm_")?;
        let target = target.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()?;
        let (shared, entries) = (module_shared(&text), bodies(&text));
        let entries = entries.into_iter().map(|(symbol, parameters, body)| entry(symbol, parameters, body, &shared));
        Some(Self { version, target, entries: entries.collect::<Option<_>>()? })
    }
}

/// Line and block comments become blanks.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        kept.push_str(&rest[..at]);
        let end = if rest[at..].starts_with("//") {
            rest[at..].find('\n').map(|end| at + end)
        } else {
            rest[at..].find("*/").map(|end| at + end + 2)
        };
        kept.push(' ');
        rest = end.map_or("", |end| &rest[end..]);
    }
    kept.push_str(rest);
    kept
}

/// The first word after a directive.
fn directive<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    line.split([' ', '\t', ',']).find(|word| !word.is_empty())
}

/// Symbol, parameter list and body of every kernel.
fn bodies(text: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    for (at, name) in text.match_indices(".entry") {
        let rest = &text[at + name.len()..];
        let Some(open) = rest.find('{') else { break };
        let (head, body) = rest.split_at(open);
        // A kernel without parameters may have no parentheses at all.
        let (symbol, parameters) = head.split_once('(').unwrap_or((head, ""));
        let parameters = parameters.split_once(')').map_or("", |(list, _)| list);
        let symbol = symbol.split_whitespace().next().unwrap_or("");
        found.push((symbol, parameters, block(body)));
    }
    found
}

/// From a brace to the one that closes it.
fn block(text: &str) -> &str {
    let mut depth = 0_u32;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..=at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

fn entry(symbol: &str, list: &str, body: &str, module_shared: &BTreeMap<String, u32>) -> Option<Entry> {
    let pointers = pointers(symbol, body);
    let mut parameters = Vec::new();
    let mut end = 0_usize;
    for (index, declaration) in list.split(',').filter(|part| part.contains(".param")).enumerate() {
        let (bytes, alignment, is_declared) = declared(declaration)?;
        let offset = end.next_multiple_of(alignment);
        parameters.push(Parameter { offset, bytes, is_pointer: is_declared || pointers.contains(&index) });
        end = offset + bytes;
    }
    let own = shared_variables(body).into_iter().map(|(_, bytes)| bytes).sum::<u32>();
    let used = module_shared.iter().filter(|(name, _)| mentions(body, name)).map(|(_, bytes)| bytes).sum::<u32>();
    Some(Entry { symbol: symbol.to_owned(), parameters, static_shared_bytes: own + used })
}

/// Bytes, alignment, and whether it is declared a pointer, of `.param .align 8 .b8 name[16]` or `.param .u64 .ptr name`.
fn declared(declaration: &str) -> Option<(usize, usize, bool)> {
    let words: Vec<_> = declaration.split_whitespace().collect();
    let element = words.iter().find_map(|word| {
        let bits = word.strip_prefix('.')?.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        (word.len() > 2 && !bits.is_empty()).then(|| bits.parse::<usize>().ok()).flatten()
    })? / 8;
    let count = match declaration.split_once('[') {
        Some((_, count)) => count.split(']').next()?.trim().parse().ok()?,
        None => 1,
    };
    // `.ptr .align N` speaks of what is pointed at, not of the parameter.
    let is_pointer = words.contains(&".ptr");
    let align = words.iter().position(|word| *word == ".align").filter(|_| !is_pointer);
    let alignment = align.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(element);
    Some((element * count, alignment.max(1), is_pointer))
}

/// Indices of the parameters that are loaded into a register which reaches `cvta.to.global` or an address in brackets.
fn pointers(symbol: &str, body: &str) -> BTreeSet<usize> {
    let prefix = format!("[{symbol}_param_");
    let mut loaded: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for statement in body.split([';', '{', '}']) {
        let words: Vec<_> = statement.split([' ', '\t', '\n', ',']).filter(|word| !word.is_empty()).collect();
        // A predicate in front of the instruction does not matter here.
        let words = match words.first() {
            Some(first) if first.starts_with('@') => &words[1..],
            _ => &words[..],
        };
        match words {
            [load, register, from, ..] if load.starts_with("ld.param") => {
                let index = from.strip_prefix(&prefix).and_then(|rest| rest.split([']', '+']).next()?.parse().ok());
                if let Some(index) = index {
                    loaded.insert(register, index);
                }
            }
            [convert, _, from] if convert.starts_with("cvta.to.global") => {
                found.extend(loaded.get(from));
            }
            [copy, to, from] if copy.starts_with("mov.") => {
                if let Some(index) = loaded.get(from).copied() {
                    loaded.insert(to, index);
                }
            }
            _ => {
                let addresses = words.iter().filter_map(|word| word.strip_prefix('['));
                found.extend(addresses.filter_map(|address| loaded.get(address.split([']', '+']).next()?)));
            }
        }
    }
    found
}

/// Shared variables outside every kernel, such as those of templates and `__shared__` statics.
fn module_shared(text: &str) -> BTreeMap<String, u32> {
    let mut depth = 0_u32;
    let outside: String = text
        .chars()
        .filter(|letter| {
            depth += u32::from(*letter == '{');
            let is_outside = depth == 0;
            depth -= u32::from(*letter == '}' && depth > 0);
            is_outside
        })
        .collect();
    shared_variables(&outside).into_iter().collect()
}

/// Name and size of each `.shared` variable; `.extern` ones have no size of their own.
fn shared_variables(text: &str) -> Vec<(String, u32)> {
    let declarations = text.split([';', '{', '}', ')']).map(str::trim);
    let shared = declarations.filter(|declaration| {
        declaration.contains(".shared ") && !declaration.contains(".extern") && !declaration.contains(".entry")
    });
    shared
        .filter_map(|declaration| {
            let declaration = &declaration[declaration.find(".shared ")?..];
            let (bytes, _, _) = declared(declaration)?;
            let name = declaration.split('[').next()?.split_whitespace().next_back()?;
            Some((name.to_owned(), bytes as u32))
        })
        .collect()
}

fn mentions(body: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    body.split(|letter| !is_part(letter)).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
// written by hand
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 _ZZ1aE4tile[100];
.visible .entry a(
    .param .u64 a_param_0,
    .param .u32 a_param_1,
    .param .u64 a_param_2,
    .param .align 8 .b8 a_param_3[24]
)
{
    .reg .b64 %rd<9>; /* registers */
    .shared .align 16 .b8 own[48];
    ld.param.u64 %rd1, [a_param_0];
    ld.param.u32 %r1, [a_param_1];
    ld.param.u64 %rd2, [a_param_2];
    cvta.to.global.u64 %rd3, %rd1;
    { mov.u32 %r2, _ZZ1aE4tile; }
    ret;
}
.visible .entry b() { ret; }
.visible .entry c(.param .u64 .ptr .global .align 16 c_param_0, .param .u64 c_param_1)
{
    ld.param.u64 %rd1, [c_param_1];
    @%p1 ld.volatile.u32 %r1, [%rd1+4];
    ret;
}
";

    #[test]
    fn a_module_is_read() {
        let ptx = Ptx::parse(TEXT).unwrap();
        assert_eq!((ptx.version, ptx.target), ((8, 0), 90));
        let symbols: Vec<_> = ptx.entries.iter().map(|entry| entry.symbol.as_str()).collect();
        assert_eq!(symbols, ["a", "b", "c"]);
        let parameter = |offset, bytes, is_pointer| Parameter { offset, bytes, is_pointer };
        let a = &ptx.entries[0];
        let expected =
            [parameter(0, 8, true), parameter(8, 4, false), parameter(16, 8, false), parameter(24, 24, false)];
        assert_eq!((a.parameters.as_slice(), a.parameter_bytes()), (expected.as_slice(), 48));
        assert_eq!(a.static_shared_bytes, 148, "its own and the module's that it names");
        assert_eq!((ptx.entries[1].parameter_bytes(), ptx.entries[1].static_shared_bytes), (0, 0));
        assert!(ptx.entries[2].parameters.iter().all(|parameter| parameter.is_pointer));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "int main() {}", ".version 8\n.target sm_80", ".version 8.0\n.target compute_80"] {
            assert_eq!(Ptx::parse(text), None, "{text:?}");
        }
    }
}
