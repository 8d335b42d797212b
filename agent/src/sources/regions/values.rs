//! The values that a program gives with its regions, on their way into a record.
//!
//! Names are the program's own, so they travel as one text: for each value its name, 0x1f, a letter that says what it is, the value (a number as
//! 16 hexadecimal digits), 0x1e.

use std::ffi::{CStr, c_char, c_void};

/// At most this much of all values together is recorded.
const MOST_BYTES: usize = 1024;
/// At most this much of a text, and of a name.
const MOST_TEXT: usize = 256;

/// `struct rsys_value` of `rsys.h`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Named {
    name: *const c_char,
    /// 1: signed, 2: unsigned, 3: floating point, 4: text.
    kind: u64,
    value: u64,
}

const _: () = assert!(size_of::<Named>() == 24);

/// `rocprofsys_annotation_t`, before that `omnitrace_annotation_t` (user/types.h of rocprofiler-systems 0.1 to 1.3).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Annotation {
    name: *const c_char,
    kind: usize,
    value: *const c_void,
}

const _: () = assert!(size_of::<Annotation>() == 24);

/// Values in the one form or the other.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// None.
    None,
    /// Those of `rsys.h`.
    Own(&'a [Named]),
    /// Those of the original.
    Original(&'a [Annotation]),
}

/// One value.
#[derive(Debug, Clone, Copy)]
enum One {
    Number(u8, u64),
    Text(*const c_char),
}

/// More values are not looked at.
const MOST_VALUES: usize = 64;

impl Values<'_> {
    /// The program's list.
    ///
    /// # Safety
    /// Null, or as many values.
    pub unsafe fn of_list<'a>(list: *const Named, count: usize) -> Values<'a> {
        if list.is_null() {
            return Values::None;
        }
        // SAFETY: as the caller says.
        Values::Own(unsafe { std::slice::from_raw_parts(list, count.min(MOST_VALUES)) })
    }

    /// The program's annotations.
    ///
    /// # Safety
    /// Null, or as many annotations.
    pub unsafe fn of_annotations<'a>(list: *const Annotation, count: usize) -> Values<'a> {
        if list.is_null() {
            return Values::None;
        }
        // SAFETY: as the caller says.
        Values::Original(unsafe { std::slice::from_raw_parts(list, count.min(MOST_VALUES)) })
    }
}

impl Named {
    /// A value of a kind, see above.
    pub fn new(name: &'static CStr, kind: u64, value: u64) -> Self {
        Named {
            name: name.as_ptr(),
            kind,
            value,
        }
    }

    fn get(&self) -> Option<One> {
        Some(match self.kind {
            1 => One::Number(b'i', self.value),
            2 => One::Number(b'u', self.value),
            3 => One::Number(b'd', self.value),
            4 => One::Text(std::ptr::with_exposed_provenance(self.value as usize)),
            _ => return None,
        })
    }
}

impl Annotation {
    /// The value, where the annotation leads to one.
    fn get(&self) -> Option<One> {
        // What is neither a text nor a pointer is given by its address.
        if self.value.is_null() && self.kind != 6 {
            return None;
        }
        // SAFETY: the program says that its value of this type is there; it may stand anywhere.
        Some(unsafe {
            match self.kind {
                1 => One::Text(self.value.cast()),
                2 | 4 => One::Number(b'u', self.value.cast::<u64>().read_unaligned()),
                3 => One::Number(b'i', self.value.cast::<u64>().read_unaligned()),
                5 => One::Number(b'd', self.value.cast::<u64>().read_unaligned()),
                6 => One::Number(b'p', self.value.addr() as u64),
                7 => signed(i64::from(self.value.cast::<i32>().read_unaligned())),
                8 => One::Number(b'u', u64::from(self.value.cast::<u32>().read_unaligned())),
                9 => {
                    let value = f64::from(self.value.cast::<f32>().read_unaligned());
                    One::Number(b'd', value.to_bits())
                }
                10 => signed(i64::from(self.value.cast::<i16>().read_unaligned())),
                11 => One::Number(b'u', u64::from(self.value.cast::<u16>().read_unaligned())),
                _ => return None,
            }
        })
    }
}

fn signed(value: i64) -> One {
    One::Number(b'i', value.cast_unsigned())
}

/// Bytes that are put one behind the other, as long as there is room.
struct Text {
    bytes: [u8; MOST_BYTES],
    used: usize,
}

impl Text {
    fn put(&mut self, bytes: &[u8]) -> bool {
        let end = self.used.saturating_add(bytes.len());
        let Some(room) = self.bytes.get_mut(self.used..end) else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.used = end;
        true
    }

    /// The beginning of a C string, without the bytes that separate values.
    fn put_string(&mut self, text: *const c_char) -> bool {
        if text.is_null() {
            return self.put(b"(null)");
        }
        // SAFETY: a C string of the caller's.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let mut text = text.iter().take(MOST_TEXT);
        text.all(|byte| {
            self.put(&[if (0x1e..=0x1f).contains(byte) {
                b' '
            } else {
                *byte
            }])
        })
    }

    fn put_value(&mut self, name: *const c_char, value: Option<One>) {
        let (before, Some(value)) = (self.used, value) else {
            return;
        };
        let is_whole = self.put_string(name)
            && self.put(&[0x1f])
            && match value {
                One::Number(kind, bits) => {
                    self.put(&[kind])
                        && (0..16).rev().all(|digit| {
                            let digit = (bits >> (digit * 4) & 0xf) as usize;
                            self.put(&[*b"0123456789abcdef".get(digit).unwrap_or(&b'0')])
                        })
                }
                One::Text(text) => self.put(b"s") && self.put_string(text),
            }
            && self.put(&[0x1e]);
        if !is_whole {
            self.used = before;
        }
    }
}

/// Calls `then` with the values as they travel; without any, with nothing.
#[inline]
pub fn encode(values: &Values<'_>, then: impl FnOnce(&[u8])) {
    if matches!(
        values,
        Values::None | Values::Own([]) | Values::Original([])
    ) {
        return then(&[]);
    }
    let mut text = Text {
        bytes: [0; MOST_BYTES],
        used: 0,
    };
    match values {
        Values::None => {}
        Values::Own(list) => list
            .iter()
            .for_each(|value| text.put_value(value.name, value.get())),
        // An annotation without a name ends the list.
        Values::Original(list) => list
            .iter()
            .take_while(|value| !value.name.is_null())
            .for_each(|value| text.put_value(value.name, value.get())),
    }
    then(text.bytes.get(..text.used).unwrap_or(&[]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_travel_with_their_names_and_types() {
        let values = [
            Named {
                name: c"n".as_ptr(),
                kind: 1,
                value: (-3_i64).cast_unsigned(),
            },
            Named {
                name: c"bad".as_ptr(),
                kind: 9,
                value: 0,
            },
            Named {
                name: c"text".as_ptr(),
                kind: 4,
                value: c"a\x1fb".as_ptr().expose_provenance() as u64,
            },
        ];
        encode(&Values::Own(&values), |text| {
            assert_eq!(text, b"n\x1fifffffffffffffffd\x1etext\x1fsa b\x1e");
        });
        let (int, float) = (-2_i16, 0.5_f32);
        let annotations = [
            Annotation {
                name: c"i".as_ptr(),
                kind: 10,
                value: (&raw const int).cast(),
            },
            Annotation {
                name: c"f".as_ptr(),
                kind: 9,
                value: (&raw const float).cast(),
            },
            Annotation {
                name: c"none".as_ptr(),
                kind: 5,
                value: std::ptr::null(),
            },
        ];
        encode(&Values::Original(&annotations), |text| {
            assert_eq!(
                text,
                b"i\x1fifffffffffffffffe\x1ef\x1fd3fe0000000000000\x1e"
            );
        });
    }

    #[test]
    fn what_does_not_fit_is_left_out_as_a_whole() {
        let long = std::ffi::CString::new(vec![b'x'; 400]).unwrap_or_default();
        let value = Named {
            name: long.as_ptr(),
            kind: 4,
            value: long.as_ptr().expose_provenance() as u64,
        };
        encode(&Values::Own(&[value; 5]), |text| {
            assert!(text.len() <= MOST_BYTES && text.ends_with(b"\x1e"));
            assert_eq!(text.iter().filter(|byte| **byte == 0x1e).count(), 1);
        });
    }
}
