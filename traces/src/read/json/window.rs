//! A part of the input in memory, which moves on.

use std::io::{self, Read};

/// The size at first. It is doubled while a single value does not fit.
const BYTES: usize = 256 << 10;

/// The largest size, and so the largest value that is taken.
const BYTES_MAX: usize = 64 << 20;

/// The part of the input from the current place on.
pub(in crate::read) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    /// The current place in the buffer.
    at: usize,
    /// How much of the buffer is filled.
    end: usize,
    /// Where in the input the buffer begins.
    offset: u64,
    is_at_end: bool,
    /// Why the input ends behind what was read of it.
    failed: Option<io::Error>,
}

/// What came of asking for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum More {
    /// There is more in the window.
    Read,
    /// The input ends with the window.
    End,
    /// The window has its largest size.
    Full,
}

impl<R: Read> Window<R> {
    pub(in crate::read) fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; BYTES],
            at: 0,
            end: 0,
            offset: 0,
            is_at_end: false,
            failed: None,
        }
    }

    /// What is there from the current place on.
    #[inline]
    pub(in crate::read) fn rest(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Where in the input the current place is.
    #[inline]
    pub(in crate::read) fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Moves the current place on. What is behind it stays until there is more to be read.
    #[inline]
    pub(in crate::read) fn advance(&mut self, bytes: usize) {
        self.at = self.end.min(self.at + bytes);
    }

    /// The bytes just behind the current place.
    #[inline]
    pub(in crate::read) fn passed(&self, bytes: usize) -> &[u8] {
        &self.buffer[self.at.saturating_sub(bytes)..self.at]
    }

    /// Reads on. What is in front of the current place is gone.
    ///
    /// # Errors
    /// When reading fails; from then on the input is at its end.
    #[cold]
    pub(in crate::read) fn more(&mut self) -> io::Result<More> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.offset += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.is_at_end {
            return Ok(More::End);
        }
        if self.end == BYTES_MAX {
            return Ok(More::Full);
        }
        if self.end > self.buffer.len() / 2 {
            let doubled = 2 * self.buffer.len();
            self.buffer.resize(doubled.min(BYTES_MAX), 0);
        }
        // Unpacking gives little at once, and whatever is cut in two is looked at twice.
        let goal = self.end + (self.buffer.len() - self.end) / 2;
        let before = self.end;
        while self.end < goal {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_at_end = true;
                    // What was read before counts.
                    self.failed = Some(error);
                    break;
                }
            }
        }
        match (self.end > before, self.failed.take()) {
            (false, Some(error)) => Err(error),
            (true, failed) => {
                self.failed = failed;
                Ok(More::Read)
            }
            (false, None) => Ok(More::End),
        }
    }
}
