//! llama.cpp's grammars (GBNF) in Lark's notation.

use ir::{Error, Result};

/// The grammar in Lark's notation: `root` becomes `start`, rules get names that Lark takes, and classes of characters
/// become regular expressions.
pub fn to_lark(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '#' => rest = &rest[rest.find('\n').unwrap_or(rest.len())..],
            '"' => {
                let n = closed(rest, '"')?;
                out += &rest[..n];
                rest = &rest[n..];
            }
            '[' => {
                let n = closed(rest, ']')?;
                out += &format!("/{}/", rest[..n].replace('/', "\\/"));
                rest = &rest[n..];
            }
            '.' => {
                out += "/(.|\\n)/";
                rest = &rest[1..];
            }
            c if c.is_alphanumeric() || c == '_' => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                let n = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                out += &name(&rest[..n]);
                rest = &rest[n..];
                if let Some(after) = rest.trim_start().strip_prefix("::=") {
                    out += ":";
                    rest = after;
                }
            }
            // Bounds of a repetition are the same in both.
            '{' => {
                let n = closed(rest, '}')?;
                out += &rest[..n];
                rest = &rest[n..];
            }
            // A rule goes on in the next line where that begins no other.
            '\n' => {
                let next = rest.trim_start();
                let word = next.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(0);
                let begins = next.is_empty() || (word > 0 && next[word..].trim_start().starts_with("::="));
                out.push(if begins { '\n' } else { ' ' });
                rest = next;
            }
            other => {
                out.push(other);
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    Ok(out + "\n")
}

/// The end of what begins with a quote or a bracket.
fn closed(text: &str, end: char) -> Result<usize> {
    let mut is_escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == end => return Ok(i + c.len_utf8()),
            _ => {}
        }
    }
    let begin: String = text.chars().take(20).collect();
    Err(Error::value(format!("the grammar has no {end:?} after {begin:?}")))
}

/// A rule's name: Lark takes capitals for terminals, and no dashes.
fn name(word: &str) -> String {
    match word {
        "root" => "start".into(),
        // Numbers are bounds, not names.
        w if w.starts_with(|c: char| c.is_ascii_digit()) => w.into(),
        w => format!("r_{}", w.replace('-', "_").to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::to_lark;

    #[test]
    fn rules_strings_and_classes() {
        let got = to_lark("root ::= item-A+ # all\nitem-A ::= \"- \" [^\\n/]{1,3}\n  | \"::=\"\n").unwrap();
        assert_eq!(got, "start: r_item_a+ \nr_item_a: \"- \" /[^\\n\\/]/{1,3} | \"::=\"\n\n");
        assert!(to_lark("root ::= \"open").unwrap_err().message.contains("no '\"'"));
    }
}
