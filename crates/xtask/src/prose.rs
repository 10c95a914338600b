//! Rules about prose: how long a sentence and a paragraph of the documentation may be, paraphrases that stand for a
//! term of the field, and files that a page names but that do not exist.
//!
//! Code blocks, tables and headings are left out. A code span and a link count as the words shown.

use std::path::{Path, PathBuf};

/// A longer sentence holds two ideas.
const SENTENCE_WORDS_MAX: usize = 35;

/// A longer paragraph wants a list, a table or a cut.
const PARAGRAPH_WORDS_MAX: usize = 80;

/// Paraphrases, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("numbers that are none", "NaN"),
    ("number that is none", "NaN"),
    ("whoever", "name the process or the user"),
    ("whosever", "name the process or the user"),
    ("nobody", "name the subject, or use the passive"),
    ("somebody", "name the subject, or use the passive"),
    ("of one's own", "custom"),
    ("ride along", "are fused into the epilogue"),
    ("rides along", "is fused into the epilogue"),
    ("floats of 8 bits", "fp8"),
    ("turned in memory", "transposed"),
    ("behind the product", "in the epilogue"),
    ("puts into the caches", "writes to the KV cache"),
    ("everybody", "every rank, every worker, all users"),
    ("whole numbers", "integers"),
    ("whole number", "an integer"),
    ("truth values", "booleans"),
    ("truth value", "a boolean"),
    ("whole copy", "complete copy"),
    ("whole copies", "complete copies"),
];

/// Checks the comments and messages of a source file: the paraphrases that are wrong in pages are wrong there.
pub fn source(file: &str, text: &str, bad: &mut Vec<String>) {
    // This crate lists them.
    if !file.starts_with("crates/xtask/") {
        for (i, line) in text.lines().enumerate() {
            bad.extend(paraphrases(line).map(|message| format!("{file}:{}: {message}", i + 1)));
        }
    }
}

/// Pages without sentences: lists of PyTorch's names.
const LISTS: &[&str] = &["torch.md"];

/// Checks one page.
pub fn page(file: &Path, text: &str, bad: &mut Vec<String>) {
    if file.file_name().is_some_and(|n| LISTS.iter().any(|g| n == *g)) {
        return;
    }
    for (line, path) in paths(text) {
        if !Path::new(path).exists() {
            bad.push(format!("{}:{line}: there is no {path}", file.display()));
        }
    }
    for paragraph in paragraphs(text) {
        for message in faults(&paragraph.text) {
            bad.push(format!("{}:{}: {message}", file.display(), paragraph.line));
        }
    }
}

/// The pages of the documentation: everything in `docs` and at the root.
pub fn pages(list: impl Fn(&Path) -> Result<Vec<PathBuf>, String>) -> Result<Vec<PathBuf>, String> {
    let mut out = Vec::new();
    for dir in ["docs", "docs/adr", ".", ".github"] {
        if Path::new(dir).exists() {
            out.extend(list(Path::new(dir))?.into_iter().filter(|f| f.extension().is_some_and(|e| e == "md")));
        }
    }
    out.sort();
    Ok(out)
}

/// Code spans that name files of the repository, tables included.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let spans = line.split('`').skip(1).step_by(2).filter(|_| !is_code);
        let is_path = |s: &&str| {
            ["crates/", "docs/", "python/", "scripts/"].iter().any(|d| s.starts_with(d))
                && !s.contains("NAME")
                && s.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        };
        out.extend(spans.filter(is_path).map(|s| (i + 1, s)));
    }
    out
}

struct Paragraph {
    line: usize,
    text: String,
}

/// Prose between blank lines; each item of a list is a paragraph.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let (mut out, mut fence): (Vec<Paragraph>, Option<&str>) = (Vec::new(), None);
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|m| trimmed.starts_with(m)) {
            fence = if fence.is_none() { Some(mark) } else { fence.filter(|f| *f != mark) };
            open = false;
            continue;
        }
        let is_other = ["#", "|", "<", "![", "---"].iter().any(|m| trimmed.starts_with(m));
        if fence.is_some() || trimmed.is_empty() || is_other {
            open = false;
            continue;
        }
        let item = item_of(trimmed);
        match out.last_mut().filter(|_| open && item.is_none()) {
            Some(last) => last.text = format!("{} {trimmed}", last.text),
            None => out.push(Paragraph { line: i + 1, text: item.unwrap_or(trimmed).to_string() }),
        }
        open = true;
    }
    out
}

/// The text of a list item, without its mark.
fn item_of(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = digits.strip_prefix(". ").filter(|_| digits.len() < line.len());
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or(numbered)
}

fn faults(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let shown = shown(text);
    let words = words(&shown);
    if words > PARAGRAPH_WORDS_MAX {
        out.push(format!("a paragraph of {words} words; at most {PARAGRAPH_WORDS_MAX}: {}", start(&shown)));
    }
    for sentence in sentences(&shown) {
        let words = self::words(&sentence);
        if words > SENTENCE_WORDS_MAX {
            out.push(format!("a sentence of {words} words; at most {SENTENCE_WORDS_MAX}: {}", start(&sentence)));
        }
    }
    out.extend(paraphrases(&shown));
    out
}

/// The paraphrases in a text, each with its term.
fn paraphrases(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let is_word = |lower: &str, at: usize, len: usize| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + len..].chars().next();
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
    };
    let is_in = move |phrase: &str| lower.match_indices(phrase).any(|(at, _)| is_word(&lower, at, phrase.len()));
    BANNED.iter().filter(move |(phrase, _)| is_in(phrase)).map(|(phrase, term)| format!("\"{phrase}\": {term}"))
}

/// The text as a reader sees it: a code span is one word, a link its words.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        out.push_str(if i % 2 == 0 { part } else { "CODE" });
    }
    let mut links = String::new();
    let mut rest = out.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        links.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    links.push_str(rest);
    links.replace(['[', ']', '*', '_'], "")
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|w| w.chars().any(char::is_alphanumeric)).count()
}

fn start(text: &str) -> String {
    text.split_whitespace().take(8).collect::<Vec<_>>().join(" ")
}

/// Cut after a full stop, question or exclamation mark that a space follows.
fn sentences(text: &str) -> Vec<String> {
    let (mut out, mut current) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        current = if current.is_empty() { word.to_string() } else { format!("{current} {word}") };
        let bare = word.trim_end_matches([')', '"', '\'']);
        if bare.ends_with(['.', '?', '!']) && !["e.g.", "i.e.", "vs."].contains(&bare) {
            out.push(std::mem::take(&mut current));
        }
    }
    out.push(current);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        let mut bad = Vec::new();
        page(Path::new("docs/x.md"), text, &mut bad);
        bad
    }

    #[test]
    fn long_sentences_and_paragraphs_are_found_where_they_begin() {
        let long = format!("Short one.\n\nIt {}.", "goes on and ".repeat(12));
        assert_eq!(check(&long), ["docs/x.md:3: a sentence of 37 words; at most 35: It goes on and goes on and goes"]);
        assert!(check(&"Four words are here. ".repeat(21))[0].contains("a paragraph of 84 words"));
        assert_eq!(check(&"Four words are here.\n- ".repeat(21)), [""; 0]);
    }

    #[test]
    fn code_tables_headings_and_link_targets_are_no_prose() {
        let many = "word ".repeat(60);
        for text in [format!("```\n{many}\n```"), format!("| {many} |"), format!("# {many}"), format!("`{many}` runs.")]
        {
            assert_eq!(check(&text), [""; 0]);
        }
        assert_eq!(shown("See [the *page*](docs/a b.md) and `x y`."), "See the page and CODE.");
    }

    #[test]
    fn files_that_are_gone_are_named() {
        let page = "See `docs/none.md`, `crates/{a,b}` and `Cargo.toml`.\n```\n`crates/none`\n```";
        assert_eq!(check(page), ["docs/x.md:1: there is no docs/none.md"]);
    }

    #[test]
    fn paraphrases_are_named_with_their_term() {
        assert_eq!(check("Whoever reads it."), ["docs/x.md:1: \"whoever\": name the process or the user"]);
        assert_eq!(check("The `nobody` user."), [""; 0]);
        let said = |file: &str| {
            let mut bad = Vec::new();
            source(file, "//! A line.\n/// Whole numbers.\nfn whole_numbers() {}\n", &mut bad);
            bad
        };
        assert_eq!(said("crates/nn/src/x.rs"), ["crates/nn/src/x.rs:2: \"whole numbers\": integers"]);
        assert_eq!(said("crates/xtask/src/x.rs"), [""; 0]);
    }
}
