//! Words of a command line as a POSIX shell quotes and splits them (POSIX.1-2024, Shell Command Language, section 2.2).

/// The words as one line that a shell splits into the same words.
#[must_use]
pub fn line<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// The word, in single quotes where a shell would read it otherwise.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Splits a line into words: blanks separate, quotes and backslashes keep together. Nothing is expanded. `None` if a quote
/// is not closed.
#[must_use]
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_words_that_a_shell_would_change_are_quoted() {
        let words = ["--flag", "1,2", "", "it's", r#"{"a": [1]}"#, "$HOME", "a b", "~", "*"];
        insta::assert_snapshot!(line(&words), @r#"--flag 1,2 '' 'it'\''s' '{"a": [1]}' '$HOME' 'a b' '~' '*'"#);
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        let line = r#"a  'b c' d\ e "f \"g\" \n $" h'i'"j" '' 'k'\''l'"#;
        let split = words(line).expect("every quote is closed");
        assert_eq!(split, ["a", "b c", "d e", r#"f "g" \n $"#, "hij", "", "k'l"]);
        assert_eq!([words("'open"), words("\"open"), words("open\\")], [None, None, None]);
    }

    #[test]
    fn a_real_shell_reads_the_line_as_the_same_words() {
        let words =
            ["it's", r#"{"sizes": [1, 2], "name": "o'neil"}"#, "$(touch x)", "`x`", "a\\b", "new\nline", "!", "ä"];
        let script = format!("printf '%s\\0' {}", line(&words));
        let Ok(out) = Command::new("sh").args(["-c", &script]).output() else { return };
        let read = String::from_utf8(out.stdout).expect("UTF-8");
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }

    proptest! {
        #[test]
        fn every_word_comes_back(all in prop::collection::vec("[ -~\n\tä]{0,12}", 0..6)) {
            prop_assert_eq!(words(&line(&all)), Some(all));
        }
    }
}
