//! What a command said on stderr: its head and its tail, however much it was.

use std::collections::VecDeque;

/// How many bytes of the beginning are kept.
const HEAD_BYTES: usize = 16 * 1024;
/// How many bytes of the end are kept: it says what made the command give up.
const TAIL_BYTES: usize = 32 * 1024;

/// Bounded text of unbounded origin.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost: usize,
}

impl Captured {
    /// Adds what came next.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.lost += over;
    }

    /// What is kept, with a note where something is missing.
    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.lost == 0 {
            return String::from_utf8_lossy(&[&*self.head, &*tail].concat()).into_owned();
        }
        let (head, tail) = (
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail),
        );
        format!("{head}\n[... {} bytes cut ...]\n{tail}", self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_whole() {
        let mut captured = Captured::default();
        captured.push("größe".as_bytes());
        captured.push(&[b'x'; HEAD_BYTES]);
        captured.push("größe".as_bytes());
        assert_eq!(
            captured.text(),
            format!("größe{}größe", "x".repeat(HEAD_BYTES))
        );
    }

    #[test]
    fn long_text_keeps_head_and_tail() {
        let mut captured = Captured::default();
        captured.push(b"begin");
        for _ in 0..1000 {
            captured.push(&[b'x'; 1000]);
        }
        captured.push(b"\xffend");
        let text = captured.text();
        assert!(text.starts_with("begin") && text.ends_with("\u{fffd}end"));
        assert!(text.contains(&format!(
            "[... {} bytes cut ...]",
            1_000_009 - HEAD_BYTES - TAIL_BYTES
        )));
    }
}
