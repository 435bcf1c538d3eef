//! The stderr of a command, of which head and tail are kept.

/// The bytes kept from the beginning.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The bytes kept from the end, where a program reports what made it give up.
const MAX_TAIL_BYTES: usize = 32 * 1024;

/// The head and the tail of a stream of unknown length.
#[derive(Debug, Default)]
pub(super) struct Stderr {
    kept: Vec<u8>,
    /// The bytes that are missing after the head.
    cut: usize,
}

impl Stderr {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let room = MAX_HEAD_BYTES + MAX_TAIL_BYTES;
        if let Some(excess) = self.kept.len().checked_sub(room) {
            self.kept.drain(MAX_HEAD_BYTES..MAX_HEAD_BYTES + excess);
            self.cut += excess;
        }
    }

    /// The kept text, with a note where bytes are missing.
    pub(super) fn text(&self) -> String {
        if self.cut == 0 {
            return String::from_utf8_lossy(&self.kept).into_owned();
        }
        let (head, tail) = self.kept.split_at(MAX_HEAD_BYTES);
        let [head, tail] = [head, tail].map(String::from_utf8_lossy);
        format!("{head}\n[... {} bytes cut ...]\n{tail}", self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_whole() {
        let mut stderr = Stderr::default();
        stderr.push("größe".as_bytes());
        stderr.push(&[b'x'; MAX_HEAD_BYTES]);
        stderr.push("größe".as_bytes());
        assert_eq!(
            stderr.text(),
            format!("größe{}größe", "x".repeat(MAX_HEAD_BYTES))
        );
    }

    #[test]
    fn long_text_keeps_head_and_tail() {
        let mut stderr = Stderr::default();
        stderr.push(b"begin");
        for _ in 0..1000 {
            stderr.push(&[b'x'; 1000]);
        }
        stderr.push(b"\xffend");
        let text = stderr.text();
        assert!(text.starts_with("begin") && text.ends_with("\u{fffd}end"));
        assert!(text.contains(&format!(
            "[... {} bytes cut ...]",
            1_000_009 - MAX_HEAD_BYTES - MAX_TAIL_BYTES
        )));
    }
}
