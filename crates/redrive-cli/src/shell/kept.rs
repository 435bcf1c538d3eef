//! What a command writes, of which head and tail are kept.

/// The bytes kept from the beginning of stderr.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The bytes kept from its end, where a program reports what made it give up.
const MAX_TAIL_BYTES: usize = 32 * 1024;

/// The head and the tail of a stream of unknown length.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    /// The most bytes of the head and of the tail.
    most: (usize, usize),
    /// The bytes that are missing after the head.
    cut: usize,
}

impl Kept {
    /// Keeps both ends, as of stderr.
    pub(super) fn ends() -> Kept {
        Kept {
            bytes: Vec::new(),
            most: (MAX_HEAD_BYTES, MAX_TAIL_BYTES),
            cut: 0,
        }
    }

    /// Keeps this many bytes of the head.
    pub(super) fn head(bytes: usize) -> Kept {
        Kept {
            most: (bytes, 0),
            ..Kept::ends()
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let (head, tail) = self.most;
        if let Some(excess) = self.bytes.len().checked_sub(head + tail) {
            self.bytes.drain(head..head + excess);
            self.cut += excess;
        }
    }

    /// The kept text, with a note where bytes are missing.
    pub(super) fn text(&self) -> String {
        if self.cut == 0 {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        let (head, tail) = self.bytes.split_at(self.most.0);
        let [head, tail] = [head, tail].map(String::from_utf8_lossy);
        format!("{head}\n[... {} bytes cut ...]\n{tail}", self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_head_and_tail() {
        let mut stderr = Kept::ends();
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
