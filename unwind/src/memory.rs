//! How the walk reads memory.

/// A guarded reader of the address space in which the walked stack lies.
///
/// The walk asks for any address: words of the stack, bytes of unwind tables, instructions before a return address, and, when a
/// stack is corrupt, addresses that were never mapped. The implementor answers `None` instead of faulting.
///
/// # Signal safety
///
/// Implementations that are used in a handler must be as safe there as the walk: no lock, no allocation, no panic.
pub trait Memory {
    /// Reads eight bytes at any address, aligned or not. `None` when one of them cannot be read.
    fn read_u64(&self, address: u64) -> Option<u64>;

    /// Reads four bytes at any address, aligned or not.
    ///
    /// The default implementation reads the aligned words around them, which never touches a page that the bytes are not on.
    #[inline]
    fn read_u32(&self, address: u64) -> Option<u32> {
        let low = self.read_u16(address)?;
        let high = self.read_u16(address.wrapping_add(2))?;
        Some(u32::from(low) | u32::from(high) << 16)
    }

    /// Reads two bytes at any address, aligned or not.
    #[inline]
    fn read_u16(&self, address: u64) -> Option<u16> {
        let low = self.read_u8(address)?;
        let high = self.read_u8(address.wrapping_add(1))?;
        Some(u16::from(low) | u16::from(high) << 8)
    }

    /// Reads one byte.
    #[inline]
    fn read_u8(&self, address: u64) -> Option<u8> {
        let word = self.read_u64(address & !7)?;
        let [byte, ..] = (word >> ((address & 7) * 8)).to_le_bytes();
        Some(byte)
    }
}

impl<M: Memory + ?Sized> Memory for &M {
    #[inline]
    fn read_u64(&self, address: u64) -> Option<u64> {
        (**self).read_u64(address)
    }

    #[inline]
    fn read_u32(&self, address: u64) -> Option<u32> {
        (**self).read_u32(address)
    }

    #[inline]
    fn read_u16(&self, address: u64) -> Option<u16> {
        (**self).read_u16(address)
    }

    #[inline]
    fn read_u8(&self, address: u64) -> Option<u8> {
        (**self).read_u8(address)
    }
}
