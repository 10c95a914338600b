//! Text from tokens, as it can be sent: whole characters only, and nothing that may turn out to be a stop string.

/// Bytes that were generated but not sent yet.
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    stops: Vec<Vec<u8>>,
    /// Whether a stop string is sent as well.
    keeps_stop: bool,
    held: Vec<u8>,
    is_stopped: bool,
}

impl TextStream {
    /// A stream that ends at the first of these strings.
    pub fn new<S: AsRef<str>>(stops: &[S], keeps_stop: bool) -> TextStream {
        let stops = stops.iter().map(|s| s.as_ref().as_bytes().to_vec()).filter(|s| !s.is_empty()).collect();
        TextStream { stops, keeps_stop, held: Vec::new(), is_stopped: false }
    }
    /// Whether a stop string was met.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The text that can be sent after these bytes of a token.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.is_stopped {
            return String::new();
        }
        self.held.extend_from_slice(bytes);
        let found = self.stops.iter().filter_map(|s| Some((position(&self.held, s)?, s.len()))).min();
        let end = match found {
            Some((at, length)) => {
                self.is_stopped = true;
                self.held.truncate(if self.keeps_stop { at + length } else { at });
                self.held.len()
            }
            None => self.held.len() - self.stops.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0),
        };
        let end = if self.is_stopped { end } else { whole(&self.held[..end]) };
        let sent: Vec<u8> = self.held.drain(..end).collect();
        String::from_utf8_lossy(&sent).into_owned()
    }

    /// What is left when generation ends; bytes that are no character become U+FFFD.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        String::from_utf8_lossy(&held).into_owned()
    }
}

fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

/// How much of the end of a text is the beginning of a stop string.
fn overlap(text: &[u8], stop: &[u8]) -> usize {
    (1..stop.len().min(text.len() + 1)).rev().find(|&n| text.ends_with(&stop[..n])).unwrap_or(0)
}

/// Bytes up to a character that is not complete yet.
fn whole(text: &[u8]) -> usize {
    let tail = text.len().saturating_sub(3);
    let Some(start) = (tail..text.len()).rev().find(|&i| text[i] & 0xc0 != 0x80) else { return text.len() };
    let length = match text[start] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if start + length > text.len() { start } else { text.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn characters_are_sent_whole() {
        let mut s = TextStream::default();
        let bytes = "añ€😀".as_bytes();
        let parts: Vec<String> = bytes.iter().map(|b| s.push(&[*b])).collect();
        assert_eq!(parts.concat(), "añ€😀");
        assert_eq!(parts[..3], ["a", "", "ñ"]);
        assert_eq!(s.push(&[0xf0, 0x9f]), "");
        assert_eq!(s.finish(), "\u{fffd}");
        assert_eq!(s.push(&[0xff, b'x']), "\u{fffd}x", "bytes that begin no character do not hold up others");
    }

    #[test]
    fn stop_strings_are_held_back_and_end_the_text() {
        let mut s = TextStream::new(&["END", "\n\n"], false);
        assert_eq!(s.push(b"one E"), "one ");
        assert_eq!(s.push(b"N"), "");
        assert_eq!(s.push(b"T"), "ENT");
        assert_eq!(s.push(b" two\n"), " two");
        assert_eq!(s.push(b"\nthree"), "");
        assert!(s.is_stopped());
        assert_eq!(s.push(b"more"), "");
        let mut kept = TextStream::new(&["END"], true);
        assert_eq!(kept.push(b"xENDy"), "xEND");
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(text in "[abñ€]{0,40}", cuts in prop::collection::vec(1usize..5, 1..60), stops in prop::collection::vec("[abñ]{1,3}", 0..3)) {
            let mut s = TextStream::new(&stops, false);
            let (mut got, mut rest) = (String::new(), text.as_bytes());
            for n in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (a, b) = rest.split_at((*n).min(rest.len()));
                got += &s.push(a);
                rest = b;
            }
            if !s.is_stopped() {
                got += &s.finish();
            }
            let end = stops.iter().filter_map(|s| text.find(s)).min().unwrap_or(text.len());
            // One stop string may begin another; the first that is complete ends the text.
            let complete = stops.iter().filter_map(|s| text.find(s).map(|i| (i + s.len(), i))).min().map_or(text.len(), |x| x.1);
            prop_assert!(got == text[..end] || got == text[..complete], "{got:?} of {text:?} with {stops:?}");
        }
    }
}
