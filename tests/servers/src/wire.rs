//! Splits PostgreSQL's protocol into frames, and patches the statement text in a Parse frame.

/// The content of a request for encryption.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
/// The answer of a server that does not encrypt.
const REFUSAL: u8 = b'N';

/// Splits a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    of: Side,
    /// The startup frame of a client, and its request for encryption before, have no type byte. The server's refusal
    /// of encryption is only one byte.
    is_first: bool,
}

/// Who sends frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Frames {
    pub(crate) fn of(of: Side) -> Frames {
        Frames {
            bytes: Vec::new(),
            of,
            is_first: true,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let end = match (self.of, self.is_first) {
            (Side::Server, true) if self.bytes.first()? == &REFUSAL => 1,
            (Side::Client, true) => self.end(0)?,
            _ => self.end(1)?,
        };
        if self.bytes.len() < end {
            return None;
        }
        let rest = self.bytes.split_off(end);
        let frame = std::mem::replace(&mut self.bytes, rest);
        self.is_first &= frame.get(4..) == Some(&SSL_REQUEST);
        Some(frame)
    }

    /// Returns the end of the frame whose length is at a place.
    fn end(&self, head: usize) -> Option<usize> {
        let length = self.bytes.get(head..head + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?);
        Some(head + usize::try_from(length).ok()?.max(4))
    }
}

/// Replaces `from` with `to` in the statement text of a Parse frame. Returns other frames unchanged.
pub fn patched(frame: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    if frame.first() != Some(&b'P') {
        return frame;
    }
    let Some(name_end) = frame.iter().skip(5).position(|byte| *byte == 0) else {
        return frame;
    };
    let begin = 5 + name_end + 1;
    let Some(length) = frame.iter().skip(begin).position(|byte| *byte == 0) else {
        return frame;
    };
    let text = String::from_utf8_lossy(&frame[begin..begin + length]);
    if !text.contains(from) {
        return frame;
    }
    let text = text.replace(from, to);
    let mut patched = vec![b'P', 0, 0, 0, 0];
    patched.extend_from_slice(&frame[5..begin]);
    patched.extend_from_slice(text.as_bytes());
    patched.extend_from_slice(&frame[begin + length..]);
    let size = u32::try_from(patched.len() - 1).unwrap_or(u32::MAX);
    patched[1..5].copy_from_slice(&size.to_be_bytes());
    patched
}
