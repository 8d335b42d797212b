//! The engine's page table: from addresses in packets to memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Backing, Mapping, Memory};
use crate::sys;

/// How many allocations are remembered.
const REMEMBERED: usize = 24;
/// Memory beyond all allocations is copied in pieces of this size.
const PIECE: usize = 4096;

/// A part of an allocation.
#[derive(Debug, Clone)]
pub struct Place {
    /// The first byte.
    pub start: *mut u8,
    /// How many follow in the same allocation.
    pub bytes: u64,
    /// The GPU whose memory it is; none: the host's.
    pub gpu: Option<usize>,
    /// First byte of the whole allocation.
    pub allocation: *mut u8,
    /// The allocation's address on the GPU.
    pub allocation_address: u64,
}

#[derive(Debug)]
struct Known {
    address: u64,
    size: u64,
    gpu: Option<usize>,
    /// Keeps the memory mapped while it is known.
    mapping: Arc<Mapping>,
}

/// What one thread knows of the memory. What was freed is forgotten with the next look.
#[derive(Debug)]
pub struct View {
    memory: &'static Memory,
    strict: bool,
    generation: u64,
    known: Vec<Known>,
}

/// An access to memory that is not there: the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmapped(pub u64);

impl View {
    /// Knows nothing yet. A strict one finds only what the driver was told of.
    pub fn new(memory: &'static Memory, strict: bool) -> Self {
        Self {
            memory,
            strict,
            generation: 0,
            known: Vec::with_capacity(REMEMBERED),
        }
    }

    /// Changes whenever something is allocated or freed.
    pub fn generation(&self) -> u64 {
        self.memory.generation.load(Ordering::Acquire)
    }

    /// Where this address is, if the driver was told of it.
    pub fn find(&mut self, address: u64) -> Option<Place> {
        let generation = self.generation();
        if generation != self.generation {
            self.known.clear();
            self.generation = generation;
        }
        let inside = |known: &Known| address.wrapping_sub(known.address) < known.size;
        let index = match self.known.iter().position(inside) {
            Some(0) => 0,
            Some(index) => {
                self.known.swap(index, index - 1);
                index - 1
            }
            None => {
                let found = self.look_up(address)?;
                if self.known.len() == REMEMBERED {
                    self.known.pop();
                }
                self.known.push(found);
                self.known.len() - 1
            }
        };
        let known = &self.known[index];
        let offset = address - known.address;
        Some(Place {
            start: known.mapping.start.wrapping_add(offset as usize),
            bytes: known.size - offset,
            gpu: known.gpu,
            allocation: known.mapping.start,
            allocation_address: known.address,
        })
    }

    /// A pointer to `bytes` bytes at this address, wherever it is, as long as it can be accessed.
    ///
    /// # Errors
    /// When it cannot.
    pub fn pointer(&mut self, address: u64, bytes: u64) -> Result<*mut u8, Unmapped> {
        if let Some(place) = self.find(address) {
            return if place.bytes >= bytes {
                Ok(place.start)
            } else {
                Err(Unmapped(address + place.bytes))
            };
        }
        let mut probe = [0; 1];
        if !self.strict
            && sys::read_guarded(address, &mut probe)
            && sys::read_guarded(address + bytes - 1, &mut probe)
        {
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        Err(Unmapped(address))
    }

    /// Copies bytes; ranges may extend over several allocations.
    ///
    /// # Errors
    /// At the first address that is not there; what came before is copied.
    pub fn copy(&mut self, mut to: u64, mut from: u64, mut bytes: u64) -> Result<(), Unmapped> {
        while bytes > 0 {
            let (source, target) = (self.find(from), self.find(to));
            let left = |place: &Option<Place>| place.as_ref().map_or(u64::MAX, |place| place.bytes);
            let mut now = bytes.min(left(&source)).min(left(&target));
            match (source, target) {
                (Some(source), Some(target)) => {
                    // SAFETY: both places are mapped and hold `now` bytes; they may overlap.
                    unsafe { std::ptr::copy(source.start, target.start, now as usize) };
                }
                (source, target) => {
                    now = now.min(PIECE as u64);
                    let mut piece = [0; PIECE];
                    let piece = &mut piece[..now as usize];
                    match source {
                        // SAFETY: mapped, and `now` bytes long.
                        Some(source) => unsafe {
                            std::ptr::copy(source.start, piece.as_mut_ptr(), piece.len());
                        },
                        None if !self.strict && sys::read_guarded(from, piece) => {}
                        None => return Err(Unmapped(from)),
                    }
                    match target {
                        // SAFETY: mapped, and `now` bytes long.
                        Some(target) => unsafe {
                            std::ptr::copy(piece.as_ptr(), target.start, piece.len());
                        },
                        None if !self.strict && sys::write_guarded(to, piece) => {}
                        None => return Err(Unmapped(to)),
                    }
                }
            }
            (to, from, bytes) = (to + now, from + now, bytes - now);
        }
        Ok(())
    }

    /// Fills bytes with a repeated pattern.
    ///
    /// # Errors
    /// At the first address that is not there.
    pub fn fill(&mut self, mut to: u64, pattern: &[u8], mut bytes: u64) -> Result<(), Unmapped> {
        if pattern.is_empty() {
            return Ok(());
        }
        // A piece of whole patterns.
        let mut piece: Vec<u8> = pattern
            .iter()
            .copied()
            .cycle()
            .take(pattern.len() * (PIECE / pattern.len()).max(1))
            .collect();
        while bytes > 0 {
            let now = bytes.min(piece.len() as u64);
            piece.truncate(now as usize);
            match self.find(to) {
                Some(place) if place.bytes >= now => {
                    // SAFETY: mapped, and `now` bytes long.
                    unsafe {
                        std::ptr::copy_nonoverlapping(piece.as_ptr(), place.start, piece.len())
                    };
                }
                None if !self.strict && sys::write_guarded(to, &piece) => {}
                Some(place) => return Err(Unmapped(to + place.bytes)),
                None => return Err(Unmapped(to)),
            }
            (to, bytes) = (to + now, bytes - now);
        }
        Ok(())
    }

    /// The 8 bytes at an address.
    ///
    /// # Errors
    /// When they are not there.
    pub fn read_u64(&mut self, address: u64) -> Result<u64, Unmapped> {
        let pointer = self.pointer(address, 8)?.cast::<u64>();
        // SAFETY: accessible; no alignment is assumed.
        Ok(unsafe { pointer.read_unaligned() })
    }

    fn look_up(&self, address: u64) -> Option<Known> {
        let table = self.memory.table();
        let (_, handle) = table.by_address.range(..=address).next_back()?;
        let allocation = table.by_handle.get(handle)?;
        let inside = address - allocation.address < allocation.size;
        inside.then(|| Known {
            address: allocation.address,
            size: allocation.size,
            gpu: matches!(
                allocation.backing,
                Backing::Device | Backing::Imported { .. }
            )
            .then_some(allocation.gpu),
            mapping: Arc::clone(&allocation.mapping),
        })
    }
}
