//! The form of commit subjects: `scope: summary`, in at most 72 characters.

use std::process::Command;

/// The last commit before the rule.
const SINCE: &str = "54d3b5cd6bba";
const SUBJECT_MAX: usize = 72;
/// Commits that were merged with longer subjects.
const EXEMPT: &[&str] = &["92db5bd", "050a55b"];

/// Checks every commit since the rule; merges are left out. Nothing is checked where git or that commit is missing, as
/// in a shallow clone or a package.
pub fn check(bad: &mut Vec<String>) {
    let known = Command::new("git").args(["cat-file", "-e", &format!("{SINCE}^{{commit}}")]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        return println!("== tidy: commit subjects are not checked: git does not know {SINCE}");
    }
    let range = format!("{SINCE}..HEAD");
    let log = Command::new("git").args(["log", "--no-merges", "--format=%h %s", &range]).output();
    let text = log.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let subjects = text.lines().filter_map(|l| l.split_once(' '));
    for (hash, subject) in subjects.filter(|(hash, _)| !EXEMPT.iter().any(|e| hash.starts_with(e))) {
        if let Some(e) = fault(subject) {
            bad.push(format!("commit {hash}: {e}: {subject}"));
        }
    }
}

/// What is wrong with a subject.
fn fault(subject: &str) -> Option<&'static str> {
    let is_scope = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_/, ".contains(c));
    let has_scope = subject.split_once(": ").is_some_and(|(scope, rest)| is_scope(scope) && !rest.trim().is_empty());
    if subject.chars().count() > SUBJECT_MAX {
        Some("the subject has more than 72 characters")
    } else if !has_scope {
        Some("the subject has no scope (`scope: summary`)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn subjects() {
        assert_eq!(fault("ops: NaN slope of an exponent at a negative base"), None);
        assert_eq!(fault("cpu, cuda: one plan"), None);
        assert!(fault("Add things").is_some() && fault(": x").is_some() && fault("a: ").is_some());
        assert!(fault(&format!("ops: {}", "x".repeat(70))).is_some());
    }
}
