//! What a build links.
//!
//! A program made for one model needs few kernels, loops and element types. Its build names them in the environment
//! variable `TALWEG_LINKED`, separated by `;`: element types (`f32`), ops with a kernel (`conv`), loops by their text
//! (`exp({0})`), instruction sets (`avx2`). The compiler leaves out the rest, because [`is_linked`] is a constant.
//! A build without the variable links everything. `talweg build` writes the list.

/// What is named, if anything is.
const NAMED: Option<&str> = option_env!("TALWEG_LINKED");

/// Whether this build links everything: it is made for any model.
pub const IS_GENERAL: bool = NAMED.is_none();

/// Whether this build links what has this name. Called in a `const` block, it decides at compile time.
///
/// ```
/// assert!(const { talweg_ir::is_linked("f32") });
/// ```
pub const fn is_linked(what: &str) -> bool {
    match NAMED {
        None => true,
        Some(names) => is_among(names.as_bytes(), what.as_bytes()),
    }
}

/// Whether a list separated by `;` has a name.
const fn is_among(names: &[u8], what: &[u8]) -> bool {
    let mut start = 0;
    while start <= names.len() {
        let mut end = start;
        while end < names.len() && names[end] != b';' {
            end += 1;
        }
        if end - start == what.len() {
            let mut i = 0;
            while i < what.len() && names[start + i] == what[i] {
                i += 1;
            }
            if i == what.len() {
                return true;
            }
        }
        start = end + 1;
    }
    false
}

/// What runs where a build without a type or a kernel meets it.
///
/// # Panics
/// Always: the list of the build is wrong.
#[cold]
pub fn unlinked(what: &str) -> ! {
    panic!("{what} is not linked into this program: see TALWEG_LINKED of its build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_whole() {
        let names = b"f32;({0} + {1});conv";
        for (what, is) in
            [("f32", true), ("({0} + {1})", true), ("conv", true), ("con", false), ("32", false), ("", false)]
        {
            assert_eq!(is_among(names, what.as_bytes()), is, "{what}");
        }
        assert!(!is_among(b"", b"f32"));
    }
}
