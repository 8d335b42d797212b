/// A loaded object as a walk and a report need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Object {
    /// First mapped address, where the ELF header is.
    pub start: u64,
    /// One past the last mapped address.
    pub end: u64,
    /// Address of `.eh_frame_hdr`, or 0.
    pub eh_frame_hdr: u64,
    /// Mapped address minus address in the file.
    pub bias: u64,
    /// Address of the path as a C string, or 0.
    pub path: u64,
}
