//! Values in what Python prints of its objects: `name='value'`, `'name': [1, 2]`, `"name": true`.
//!
//! Such a text is read by the names looked for, not as a whole: it holds objects of every kind, and other releases hold others.

/// The text of the first value of this name, a string without its quotes, anything in brackets with them.
#[must_use]
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let is_start = |before: Option<char>| before.is_none_or(|letter| " ,({[".contains(letter));
    text.match_indices(name).find_map(|(at, _)| {
        let (before, rest) = (&text[..at], &text[at + name.len()..]);
        let (before, rest) = match before.chars().next_back() {
            Some(quote @ ('\'' | '"')) => (&before[..at - 1], rest.strip_prefix(quote)?.strip_prefix(':')?),
            _ => (before, rest.strip_prefix('=')?),
        };
        if is_start(before.chars().next_back()) { whole(rest.trim_start()) } else { None }
    })
}

/// A whole number.
#[must_use]
pub fn whole_number(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}

/// A number that is not negative.
#[must_use]
pub fn real(value: &str) -> Option<f64> {
    value.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// `True` or `False`, also as JSON writes them.
#[must_use]
pub fn switch(value: &str) -> Option<bool> {
    match value.trim() {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    }
}

/// A list of whole numbers, in ascending order; older releases print ladders descending.
#[must_use]
pub fn sizes(value: &str) -> Option<Vec<u32>> {
    let inside = value.trim().strip_prefix('[')?.strip_suffix(']')?.trim().trim_end_matches(',');
    if inside.is_empty() {
        return Some(Vec::new());
    }
    let mut sizes: Vec<u32> = inside.split(',').map(|size| size.trim().parse().ok()).collect::<Option<_>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Some(sizes)
}

/// The value that a text begins with; `None` if it is cut off.
fn whole(text: &str) -> Option<&str> {
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        let inside = &text[1..];
        return Some(&inside[..end_of_string(inside, quote)?]);
    }
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '[' | '{' | '(' | '<' => depth += 1,
            ']' | '}' | ')' | '>' | ',' | ' ' if depth == 0 => return Some(&text[..at]),
            ']' | '}' | ')' | '>' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..=at]);
                }
            }
            '\'' | '"' => at += 1 + end_of_string(&text[at + 1..], letter)?,
            _ => {}
        }
        at += letter.len_utf8();
    }
    (depth == 0 && !text.is_empty()).then_some(text)
}

/// Where the closing quote stands.
fn end_of_string(inside: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    inside.char_indices().find_map(|(at, letter)| {
        let closes = letter == quote && !escaped;
        escaped = letter == '\\' && !escaped;
        closes.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "config: model='a \\'b\\' c', speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3), \
                    max_seq_len=8192, compilation_config={'mode': <M.VLLM: 3>, \"cudagraph_mode\": <C.FULL: (2, 1)>, \
                    'x_cudagraph_capture_sizes': [9], 'cudagraph_capture_sizes': [4, 2, 1, 2], 'odd': ['}', 'a']}, last=None";
        assert_eq!(value(text, "model"), Some("a \\'b\\' c"));
        assert_eq!(value(text, "speculative_config"), Some("SpeculativeConfig(method='mtp', num_spec_tokens=3)"));
        assert_eq!(value(text, "max_seq_len").and_then(whole_number), Some(8192));
        assert_eq!(value(text, "seq_len"), None);
        assert_eq!(value(text, "cudagraph_mode"), Some("<C.FULL: (2, 1)>"));
        assert_eq!(value(text, "cudagraph_capture_sizes").and_then(sizes), Some(vec![1, 2, 4]));
        assert!(value(text, "compilation_config").is_some_and(|value| value.ends_with("['}', 'a']}")));
        assert_eq!(value(text, "last"), Some("None"));
    }

    #[test]
    fn nothing_cut_off_is_a_value_and_no_text_fails() {
        let text = "{'sizes': [1, 2], 'word': 'é\\'', 'deep': {'a': ('b', <c>)}}";
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            for name in ["sizes", "word", "deep"] {
                let found = value(&text[..end], name);
                assert!(found.is_none() || found == value(text, name), "{end}: {found:?}");
            }
        }
        for odd in ["'a': ", "a=", "a==", "'a':'", "a=)", "a=\u{301}", "é'a': 1"] {
            let _ = value(odd, "a");
        }
        assert_eq!(sizes("[]"), Some(Vec::new()));
        assert_eq!(sizes("[1, x]"), None);
    }
}
