//! A file that another thread writes and packs, so that making what stands in it goes on meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Bytes that are handed over at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Buffers that wait for the other thread at most. One more is being filled, and one is being written.
const WAITING: usize = 2;

/// A file, to which bytes are appended.
pub(crate) struct Background {
    buffer: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    /// Buffers that can be filled.
    written: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Background {
    /// Begins a file, packed by gzip or plain.
    pub(crate) fn new(file: File, is_packed: bool) -> io::Result<Self> {
        let (full, to_write) = sync_channel(WAITING);
        let (back, written) = channel();
        // Allocated up front, so that memory use does not depend on how fast the writer is.
        for _ in 0..=WAITING {
            back.send(Vec::with_capacity(BUFFER_BYTES)).ok();
        }
        let name = std::thread::Builder::new().name("export".to_owned());
        let thread = name.spawn(move || match is_packed {
            false => write_all(file, &to_write, &back).map(drop),
            true => {
                let packed = GzEncoder::new(file, Compression::fast());
                write_all(packed, &to_write, &back)?.finish().map(drop)
            }
        })?;
        Ok(Self {
            buffer: Vec::with_capacity(BUFFER_BYTES),
            full,
            written,
            thread,
        })
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When anything could not be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.buffer);
        // Who does not take it has failed, and says why.
        self.full.send(rest).ok();
        drop(self.full);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the thread that writes has failed")))
    }

    fn hand_over(&mut self) -> io::Result<()> {
        // Why the other thread ended is what `finish` says.
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        let next = self.written.recv().map_err(|_| ended())?;
        let full = std::mem::replace(&mut self.buffer, next);
        self.full.send(full).map_err(|_| ended())
    }
}

fn write_all<W: Write>(
    mut to: W,
    to_write: &Receiver<Vec<u8>>,
    back: &Sender<Vec<u8>>,
) -> io::Result<W> {
    for mut buffer in to_write {
        to.write_all(&buffer)?;
        buffer.clear();
        back.send(buffer).ok();
    }
    Ok(to)
}

impl Write for Background {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES && !self.buffer.is_empty() {
            self.hand_over()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn all_bytes_arrive_in_order() -> io::Result<()> {
        let path = std::env::temp_dir().join(format!("rsys-background-{}", std::process::id()));
        for is_packed in [false, true] {
            let mut file = Background::new(File::create(&path)?, is_packed)?;
            let mut expected = Vec::new();
            for number in 0..400_000_u32 {
                let line = format!("{number} ");
                expected.extend_from_slice(line.as_bytes());
                file.write_all(line.as_bytes())?;
            }
            // More than a buffer at once.
            let large = vec![b'x'; 3 * BUFFER_BYTES];
            expected.extend_from_slice(&large);
            file.write_all(&large)?;
            file.finish()?;
            let mut found = Vec::new();
            let mut plain = File::open(&path)?;
            match is_packed {
                true => GzDecoder::new(plain).read_to_end(&mut found)?,
                false => plain.read_to_end(&mut found)?,
            };
            assert!(found == expected, "{is_packed}");
        }
        std::fs::remove_file(&path)
    }

    #[test]
    fn a_full_disk_is_told() -> io::Result<()> {
        let full = File::options().write(true).open("/dev/full")?;
        let mut file = Background::new(full, false)?;
        let mut all = Ok(());
        for _ in 0..10 {
            all = all.and_then(|()| file.write_all(&vec![0; BUFFER_BYTES]));
        }
        let error = file.finish().expect_err("nothing fits");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(all.is_err());
        Ok(())
    }
}
