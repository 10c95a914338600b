//! The book: `mdbook` builds the pages of `docs` into `target/book`; links that leave the book are pointed at the
//! repository, and links within it are checked.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// How to install the version that the pages were checked with.
pub const INSTALL: &str = "cargo install mdbook --version 0.5.2 --locked";

/// True if `mdbook` is on the PATH.
pub fn is_installed() -> bool {
    Command::new("mdbook").arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Builds the book and checks its links.
pub fn build() -> Result<(), String> {
    println!("== book");
    let status = Command::new("mdbook").args(["build", "docs"]).status();
    let status = status.map_err(|e| format!("mdbook did not start: {e} ({INSTALL})"))?;
    if !status.success() {
        return Err("mdbook build docs failed".to_string());
    }
    let root = Path::new("target/book");
    let repository = repository()?;
    let mut bad = Vec::new();
    for page in pages(root)? {
        let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        let within = page.strip_prefix(root).map_err(|e| e.to_string())?;
        let fixed = links(&text, |href| target(within, href, &repository));
        if fixed != text {
            fs::write(&page, &fixed).map_err(|e| format!("{}: {e}", page.display()))?;
        }
        links(&fixed, |href| {
            if !leads_somewhere(root, within, href) {
                bad.push(format!("{}: the link {href} leads nowhere", page.display()));
            }
            None
        });
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("book: {} broken links\n{}", bad.len(), bad.join("\n"))) }
}

/// Pages of `docs` that the table of contents does not list.
pub fn unlisted(pages: &[PathBuf]) -> Result<Vec<String>, String> {
    let summary = fs::read_to_string("docs/SUMMARY.md").map_err(|e| format!("docs/SUMMARY.md: {e}"))?;
    let within = pages.iter().filter_map(|p| p.strip_prefix("docs").ok()).filter(|p| *p != Path::new("SUMMARY.md"));
    let missing = within.filter(|p| !summary.contains(&format!("]({})", p.display())));
    Ok(missing.map(|p| format!("docs/{}: not listed in docs/SUMMARY.md", p.display())).collect())
}

/// Where links to files of the repository lead: to its address if the workspace names one, else to this checkout.
fn repository() -> Result<String, String> {
    let manifest = fs::read_to_string("Cargo.toml").map_err(|e| format!("Cargo.toml: {e}"))?;
    let named = manifest.lines().find_map(|l| l.strip_prefix("repository")?.split('"').nth(1));
    match named {
        Some(url) => Ok(format!("{}/blob/main/", url.trim_end_matches('/'))),
        None => Ok(format!("file://{}/", std::path::absolute(".").map_err(|e| e.to_string())?.display())),
    }
}

fn pages(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(pages(&path)?);
        } else if path.extension().is_some_and(|e| e == "html") {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// The text with each `href` and `src` replaced by what `replace` returns.
fn links(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = ["href=\"", "src=\""].iter().filter_map(|m| rest.find(m).map(|i| i + m.len())).min() {
        let (before, after) = rest.split_at(at);
        let (link, tail) = after.split_at(after.find('"').unwrap_or(0));
        out.push_str(before);
        out.push_str(&replace(link).unwrap_or_else(|| link.to_string()));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The address of a link that leaves the book; none for one that stays.
fn target(page: &Path, href: &str, repository: &str) -> Option<String> {
    if href.contains("://") || href.starts_with('#') {
        return None;
    }
    // Pages lie in `docs`, so that is where links of theirs begin.
    let path = joined(&Path::new("docs").join(page), href.split('#').next()?);
    if path.starts_with("docs") {
        return None;
    }
    // mdbook calls every page `.html`, also those outside.
    let source = path.with_extension("md");
    let path = if !path.exists() && source.exists() { source } else { path };
    Some(format!("{repository}{}", path.display()))
}

/// The path that a relative link of a page names, without `..`.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in page.with_file_name(link).components() {
        if part == Component::ParentDir {
            out.pop();
        } else {
            out.push(part);
        }
    }
    out
}

fn leads_somewhere(root: &Path, page: &Path, href: &str) -> bool {
    if let Some(path) = href.strip_prefix("file://") {
        return Path::new(path).exists();
    }
    if href.contains("://") || href.is_empty() || href.starts_with("javascript:") {
        return true;
    }
    let (path, id) = href.split_once('#').unwrap_or((href, ""));
    let to = root.join(if path.is_empty() { page.to_path_buf() } else { joined(page, path) });
    let is_page = to.extension().is_some_and(|e| e == "html");
    to.exists() && (id.is_empty() || !is_page || has_id(&to, id))
}

fn has_id(page: &Path, id: &str) -> bool {
    fs::read_to_string(page).is_ok_and(|text| text.contains(&format!("id=\"{id}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_lead_to_the_repository() {
        let to = |page: &str, href| target(Path::new(page), href, "https://example.org/");
        assert_eq!(to("a.html", "../crates/x.rs").unwrap(), "https://example.org/crates/x.rs");
        assert_eq!(to("adr/b.html", "../../crates/x.rs").unwrap(), "https://example.org/crates/x.rs");
        assert_eq!(to("adr/b.html", "../a.html#part"), None);
        assert_eq!(to("a.html", "https://example.com"), None);
    }

    #[test]
    fn every_link_is_seen() {
        let mut seen = Vec::new();
        let text = "<a href=\"x\">y</a> <img src=\"z\">";
        let out = links(text, |l| {
            seen.push(l.to_string());
            (l == "x").then(|| "w".to_string())
        });
        assert_eq!(
            (out.as_str(), seen),
            ("<a href=\"w\">y</a> <img src=\"z\">", vec!["x".to_string(), "z".to_string()])
        );
    }
}
