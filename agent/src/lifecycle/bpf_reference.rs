//! The language of seccomp filters once more, for tests: with all arguments known, as the kernel runs it.

/// What a filter returns for `struct seccomp_data` as sixteen words, or `None` where the kernel would not accept the filter.
pub fn run(code: &[u64], data: &[u32; 16]) -> Option<u32> {
    let (mut a, mut x, mut cells) = (0_u32, 0_u32, [0_u32; 16]);
    let mut at = 0_usize;
    loop {
        let word = *code.get(at)?;
        let (class, k) = (word & 0xffff, (word >> 32) as u32);
        let (yes, no) = ((word >> 16 & 0xff) as usize, (word >> 24 & 0xff) as usize);
        at += 1;
        let source = if class & 0x08 == 0 { k } else { x };
        match (class & 0x07, class & !0x0f) {
            (0, 0x00) if class == 0 => a = k,
            (0, 0x20) => a = *data.get((k as usize).checked_div(4).filter(|_| k % 4 == 0)?)?,
            (0, 0x60) => a = *cells.get(k as usize)?,
            (0, 0x80) => a = 64,
            (1, 0x00) => x = k,
            (1, 0x60) => x = *cells.get(k as usize)?,
            (1, 0x80) => x = 64,
            (2, 0x00) => *cells.get_mut(k as usize)? = a,
            (3, 0x00) => *cells.get_mut(k as usize)? = x,
            (4, 0x80) => a = 0_u32.wrapping_sub(a),
            (4, operation) => {
                a = match operation {
                    0x00 => a.wrapping_add(source),
                    0x10 => a.wrapping_sub(source),
                    0x20 => a.wrapping_mul(source),
                    0x30 if source != 0 => a / source,
                    0x40 => a | source,
                    0x50 => a & source,
                    0x60 if source < 32 => a << source,
                    0x70 if source < 32 => a >> source,
                    0xa0 => a ^ source,
                    _ => return None,
                }
            }
            (5, 0x00) => at += k as usize,
            (5, 0x10) => at += if a == source { yes } else { no },
            (5, 0x20) => at += if a > source { yes } else { no },
            (5, 0x30) => at += if a >= source { yes } else { no },
            (5, 0x40) => at += if a & source == 0 { no } else { yes },
            (6, 0x00) if class == 0x06 => return Some(k),
            (6, 0x10) if class == 0x16 => return Some(a),
            (7, 0x00) => x = a,
            (7, 0x80) => a = x,
            _ => return None,
        }
    }
}
