//! A file that is written: blocks of packets, compressed by several threads and written in order.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rsys_proto::{Compressor, Effort};

/// Packets that are handed on together.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Blocks that wait for each thread.
const WAITING_MAX: usize = 2;
/// More threads do not help: one thread reads.
const THREADS_MAX: usize = 8;

/// What is handed on together.
#[derive(Debug)]
pub enum Piece {
    /// Whole packets.
    Packets(Vec<u8>),
    /// Whole packets that are compressed already.
    Packed(Vec<u8>),
}

/// Takes blocks of whole packets and brings them to a file. Nothing is written in the thread that calls.
#[derive(Debug)]
pub struct BlockWriter {
    workers: Vec<SyncSender<Piece>>,
    compress: bool,
    next: usize,
    spare: Receiver<Vec<u8>>,
    threads: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<io::Result<(File, u64)>>>,
}

impl BlockWriter {
    /// A writer to `file`.
    #[must_use]
    pub fn new(file: File, compress: bool) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = if compress {
            processors.min(THREADS_MAX)
        } else {
            1
        };
        let (give_back, spare) = sync_channel(count * 4 * WAITING_MAX);
        let (mut workers, mut threads, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let (sender, pieces) = sync_channel::<Piece>(WAITING_MAX);
            let (finished, result) = sync_channel::<Vec<u8>>(WAITING_MAX);
            let give_back = give_back.clone();
            threads.push(std::thread::spawn(move || {
                work(&pieces, &finished, &give_back, compress);
            }));
            workers.push(sender);
            results.push(result);
        }
        let writer = std::thread::spawn(move || write(file, &results, &give_back));
        Self {
            workers,
            compress,
            next: 0,
            spare,
            threads,
            writer: Some(writer),
        }
    }

    /// Whether packets are compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.compress
    }

    /// An empty block.
    pub fn block(&mut self) -> Vec<u8> {
        self.spare.try_recv().map_or_else(
            |_| Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 8),
            |mut block| {
                block.clear();
                block
            },
        )
    }

    /// Hands over a piece.
    ///
    /// # Errors
    /// When writing has failed; [`BlockWriter::finish`] returns why.
    pub fn put(&mut self, piece: Piece) -> io::Result<()> {
        let worker = self.next;
        self.next = (worker + 1) % self.workers.len();
        self.workers[worker]
            .send(piece)
            .map_err(|_| io::Error::other("the output failed"))
    }

    /// Waits until all is written; returns the file and its length.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn finish(mut self) -> io::Result<(File, u64)> {
        self.workers.clear();
        let writer = self.writer.take();
        let outcome = writer.map(JoinHandle::join);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err(io::Error::other("a compressing thread failed"));
            }
        }
        match outcome {
            Some(Ok(outcome)) => outcome,
            _ => Err(io::Error::other("the writing thread failed")),
        }
    }
}

fn work(
    pieces: &Receiver<Piece>,
    finished: &SyncSender<Vec<u8>>,
    give_back: &SyncSender<Vec<u8>>,
    compress: bool,
) {
    let mut compressor = compress.then(Compressor::default);
    while let Ok(piece) = pieces.recv() {
        let result = match (piece, &mut compressor) {
            (Piece::Packed(packed), _) => packed,
            (Piece::Packets(block), None) => block,
            (Piece::Packets(block), Some(compressor)) => {
                let packed = compressor.block(&block, Effort::Quick).to_vec();
                // The memory is used again, unless there is enough of it.
                give_back.try_send(block).ok();
                packed
            }
        };
        if finished.send(result).is_err() {
            return;
        }
    }
}

fn write(
    mut file: File,
    results: &[Receiver<Vec<u8>>],
    give_back: &SyncSender<Vec<u8>>,
) -> io::Result<(File, u64)> {
    let mut written = 0;
    for result in results.iter().cycle() {
        let Ok(block) = result.recv() else {
            break;
        };
        file.write_all(&block)?;
        written += block.len() as u64;
        give_back.try_send(block).ok();
    }
    file.flush()?;
    Ok((file, written))
}
