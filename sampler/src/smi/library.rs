//! One SMI library: found, loaded, initialised, asked.
//!
//! Signatures are those of rocm_smi.h (5.2 to 7.0) and amdsmi.h (6.1 to 7.0). Only functions are
//! called whose signature is the same in all of these; where a structure grew, only its part that
//! stayed is looked at.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use super::functions::Shape::{Activity, Current, Energy, I64Of, Level, Metrics, U32, U64, U64Of};
use super::functions::{AMD, ROCM, Row, Shape};

/// More than any structure of these libraries takes: the largest, of all metrics, has less than 8
/// KiB.
const ROOM: usize = 1 << 16;

/// More GPUs, or sockets with GPUs, are not believed.
const MOST_DEVICES: u32 = 1024;

/// Names of the libraries, newest first; the older one comes first, because its functions have not
/// changed for years.
const NAMES: [&str; 10] = [
    "librocm_smi64.so.7",
    "librocm_smi64.so.6",
    "librocm_smi64.so.5",
    "librocm_smi64.so.1",
    "librocm_smi64.so",
    "libamd_smi.so.27",
    "libamd_smi.so.26",
    "libamd_smi.so.25",
    "libamd_smi.so.0",
    "libamd_smi.so",
];

/// A library that was initialised.
#[derive(Debug)]
pub(super) struct Library {
    /// The file's name, as it was found.
    pub(super) name: String,
    handle: *mut c_void,
    rows: &'static [Row],
    /// PCI address and what the library takes for the device: a number or a pointer.
    devices: Vec<(String, usize)>,
}

impl Library {
    /// The first library that can be loaded and knows a GPU; with a path, that one.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn open(path: Option<&OsStr>) -> Result<Self, String> {
        if let Some(path) = path {
            return Self::load(path);
        }
        let rocm = std::env::var_os("ROCM_PATH").unwrap_or_else(|| "/opt/rocm".into());
        let mut reason = None;
        for name in NAMES {
            for path in [
                name.into(),
                std::path::Path::new(&rocm).join("lib").join(name),
            ] {
                match Self::load(path.as_os_str()) {
                    Ok(library) => return Ok(library),
                    Err(why) if why == NOT_THERE => {}
                    Err(why) => drop(reason.get_or_insert_with(|| format!("{name}: {why}"))),
                }
            }
        }
        Err(reason.unwrap_or_else(|| "no SMI library is installed".to_owned()))
    }

    fn load(path: &OsStr) -> Result<Self, String> {
        let terminated = CString::new(path.as_bytes()).map_err(|_| NOT_THERE)?;
        // SAFETY: the name is terminated. What the library's constructors do can hurt this process only.
        let handle =
            unsafe { libc::dlopen(terminated.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(loader_error());
        }
        let mut library = Self {
            name: path.to_string_lossy().into_owned(),
            handle,
            rows: ROCM,
            devices: Vec::new(),
        };
        // libamd_smi has functions of librocm_smi64 in it.
        library.devices = if library.function(c"amdsmi_init").is_some() {
            library.rows = AMD;
            library.amd_devices()?
        } else if library.function(c"rsmi_init").is_some() {
            library.rocm_devices()?
        } else {
            return Err("it is no SMI library".to_owned());
        };
        if library.devices.is_empty() {
            return Err("it knows no GPU".to_owned());
        }
        Ok(library)
    }

    /// What the library takes for the GPU at a PCI address.
    pub(super) fn device(&self, address: &str) -> Option<usize> {
        let found = self.devices.iter().find(|(known, _)| known == address);
        found.map(|(_, device)| *device)
    }

    /// What a sensor says now.
    ///
    /// # Errors
    /// What the library answers instead.
    pub(super) fn read(&self, device: usize, sensor: &str) -> Result<f64, String> {
        let mut reason = "it does not know such a sensor".to_owned();
        for (_, name, shape) in self.rows.iter().filter(|(known, ..)| *known == sensor) {
            let Some(function) = self.function(name) else {
                reason = format!("it has no {}", name.to_string_lossy());
                continue;
            };
            match shape.call(function, device) {
                Ok(value) if value.is_finite() => return Ok(value),
                Ok(_) => "not a number".clone_into(&mut reason),
                Err(0) => "not available".clone_into(&mut reason),
                Err(status) => reason = format!("status {status}"),
            }
        }
        Err(reason)
    }

    fn function(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is that of a loaded library, which stays loaded; the name is terminated.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    fn rocm_devices(&self) -> Result<Vec<(String, usize)>, String> {
        let [init, count, address] = [
            c"rsmi_init",
            c"rsmi_num_monitor_devices",
            c"rsmi_dev_pci_id_get",
        ]
        .map(|name| self.function(name).ok_or("it lacks functions"));
        let mut number = 0_u32;
        // SAFETY: functions of rocm_smi.h with their signatures; results have room.
        unsafe {
            let init: unsafe extern "C" fn(u64) -> c_int = std::mem::transmute(init?);
            succeeds(init(0), "initialisation")?;
            let count: unsafe extern "C" fn(*mut u32) -> c_int = std::mem::transmute(count?);
            succeeds(count(&raw mut number), "counting GPUs")?;
        }
        let address = address?;
        let devices = (0..number.min(MOST_DEVICES)).filter_map(|device| {
            let mut id = 0_u64;
            // SAFETY: as above.
            let status = unsafe {
                let address: unsafe extern "C" fn(u32, *mut u64) -> c_int =
                    std::mem::transmute(address);
                address(device, &raw mut id)
            };
            (status == 0).then(|| (pci_address(id >> 32, id & 0xffff), device as usize))
        });
        Ok(devices.collect())
    }

    fn amd_devices(&self) -> Result<Vec<(String, usize)>, String> {
        /// AMDSMI_INIT_AMD_GPUS.
        const GPUS: u64 = 2;
        type List = unsafe extern "C" fn(*mut u32, *mut usize) -> c_int;
        type ListOf = unsafe extern "C" fn(usize, *mut u32, *mut usize) -> c_int;
        let [init, sockets, processors, address] = [
            c"amdsmi_init",
            c"amdsmi_get_socket_handles",
            c"amdsmi_get_processor_handles",
            c"amdsmi_get_gpu_device_bdf",
        ]
        .map(|name| self.function(name).ok_or("it lacks functions"));
        // SAFETY: functions of amdsmi.h with their signatures; handles are pointers, and lists have the room that they state.
        let (sockets, processors, address) = unsafe {
            let init: unsafe extern "C" fn(u64) -> c_int = std::mem::transmute(init?);
            succeeds(init(GPUS), "initialisation")?;
            let address: unsafe extern "C" fn(usize, *mut u64) -> c_int =
                std::mem::transmute(address?);
            (
                std::mem::transmute::<*mut c_void, List>(sockets?),
                std::mem::transmute::<*mut c_void, ListOf>(processors?),
                address,
            )
        };
        let list = |ask: &dyn Fn(*mut u32, *mut usize) -> c_int| {
            let mut count = 0_u32;
            if ask(&raw mut count, std::ptr::null_mut()) != 0 {
                return Vec::new();
            }
            count = count.min(MOST_DEVICES);
            let mut handles = vec![0_usize; count as usize];
            if count == 0 || ask(&raw mut count, handles.as_mut_ptr()) != 0 {
                return Vec::new();
            }
            handles.truncate(count as usize);
            handles
        };
        let mut devices = Vec::new();
        // SAFETY: as above.
        for socket in list(&|count, handles| unsafe { sockets(count, handles) }) {
            // SAFETY: as above.
            for device in list(&|count, handles| unsafe { processors(socket, count, handles) }) {
                let mut id = 0_u64;
                // SAFETY: as above.
                if unsafe { address(device, &raw mut id) } == 0 {
                    devices.push((pci_address(id >> 16, id & 0xffff), device));
                }
            }
        }
        Ok(devices)
    }
}

/// What [`Library::load`] says of a file that is not there.
const NOT_THERE: &str = "it is not there";

/// Why the last `dlopen` failed.
fn loader_error() -> String {
    // SAFETY: the text, if there is one, is terminated and stays until the next call.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return NOT_THERE.to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    };
    if text.contains("No such file") {
        NOT_THERE.to_owned()
    } else {
        text.replace('\n', " ")
    }
}

fn succeeds(status: c_int, what: &str) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status => Err(format!("{what} failed (status {status})")),
    }
}

/// `0000:c1:00.0`; `place` is bus, device and function.
pub(crate) fn pci_address(domain: u64, place: u64) -> String {
    format!(
        "{domain:04x}:{:02x}:{:02x}.{:x}",
        place >> 8 & 0xff,
        place >> 3 & 0x1f,
        place & 7
    )
}

impl Shape {
    /// The number in the sensor's unit; else the library's status, or 0 where it says that there is
    /// no number.
    fn call(self, function: *mut c_void, device: usize) -> Result<f64, c_int> {
        let mut room = vec![0_u64; ROOM / 8];
        let result = room.as_mut_ptr();
        // SAFETY: the table gives each function its shape. A device is a pointer or a 32-bit number, which both travel in one register. All
        // results have room.
        let status = unsafe {
            match self {
                U32 | U64(_) | Metrics(_) | Activity(_) => {
                    let function: unsafe extern "C" fn(usize, *mut u64) -> c_int =
                        std::mem::transmute(function);
                    function(device, result)
                }
                U64Of(which, _) | I64Of(which, _) | Level(which) => {
                    let function: unsafe extern "C" fn(usize, u32, *mut u64) -> c_int =
                        std::mem::transmute(function);
                    function(device, which, result)
                }
                Current(which, _) => {
                    let function: unsafe extern "C" fn(usize, u32, u32, *mut u64) -> c_int =
                        std::mem::transmute(function);
                    function(device, which, 0, result)
                }
                Energy => {
                    let function: unsafe extern "C" fn(
                        usize,
                        *mut u64,
                        *mut u64,
                        *mut u64,
                    ) -> c_int = std::mem::transmute(function);
                    function(device, result, result.add(1), result.add(2))
                }
            }
        };
        if status != 0 {
            return Err(status);
        }
        let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.number(&bytes).ok_or(0)
    }

    /// The number in what the function wrote.
    fn number(self, bytes: &[u8]) -> Option<f64> {
        let u32_at = |place: usize| {
            Some(u32::from_ne_bytes(
                bytes.get(place..place + 4)?.try_into().ok()?,
            ))
        };
        let u64_at = |place: usize| {
            Some(u64::from_ne_bytes(
                bytes.get(place..place + 8)?.try_into().ok()?,
            ))
        };
        // All bits set: there is no such number.
        let there = |value: u64| (value != u64::MAX).then_some(value);
        let share = |value: u32| (value <= 100).then_some(f64::from(value));
        match self {
            U32 => share(u32_at(0)?),
            Activity(place) => share(u32_at(4 * place)?),
            U64(factor) | U64Of(_, factor) => Some(there(u64_at(0)?)? as f64 * factor),
            I64Of(_, factor) | Current(_, factor) => {
                Some(there(u64_at(0)?)? as i64 as f64 * factor)
            }
            Energy => {
                let microjoules = f64::from(f32::from_bits(u32_at(8)?));
                Some(there(u64_at(0)?)? as f64 * microjoules * 1e-6)
            }
            Level(_) => Some(level_hz(bytes)? * 1e-6),
            Metrics(place) => {
                let value = u16::from_ne_bytes(bytes.get(place..place + 2)?.try_into().ok()?);
                (value != u16::MAX).then_some(f64::from(value))
            }
        }
    }
}

/// The present one of a list of frequencies. Since 6.0 a byte stands in front: (pad) count, present
/// one, frequencies.
///
/// The two forms cannot be taken for one another: read in the wrong one, the present one is not
/// below the count.
fn level_hz(bytes: &[u8]) -> Option<f64> {
    let u32_at = |place: usize| {
        Some(u32::from_ne_bytes(
            bytes.get(place..place + 4)?.try_into().ok()?,
        ))
    };
    let form = |counts: usize, first: usize| {
        let (count, current) = (u32_at(counts)?, u32_at(counts + 4)?);
        let place = first + 8 * current as usize;
        let hz = u64::from_ne_bytes(bytes.get(place..place + 8)?.try_into().ok()?);
        (count <= 64 && current < count && (1_000_000..=100_000_000_000).contains(&hz))
            .then_some(hz as f64)
    };
    form(4, 16).or_else(|| form(0, 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::functions::MIB;

    fn bytes(words: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(600, 0);
        bytes
    }

    #[test]
    fn numbers_of_all_shapes() {
        let none = [u32::MAX; 4];
        let cases: &[(Shape, &[u32], Option<f64>)] = &[
            (U32, &[63], Some(63.0)),
            (U32, &none, None),
            (Activity(2), &[1, 2, 3], Some(3.0)),
            (Activity(2), &[1, 2, 0xffff], None),
            (U64(1e-6), &[215_000_000, 0], Some(215.0)),
            (U64Of(0, MIB), &[3 << 20, 0], Some(3.0)),
            (U64Of(0, MIB), &none, None),
            (Current(0, 1e-3), &[41_000, 0], Some(41.0)),
            // Below zero.
            (
                Current(0, 1e-3),
                &[(-2000_i32).cast_unsigned(), u32::MAX],
                Some(-2.0),
            ),
            // 2 counts of half a joule.
            (Energy, &[2, 0, 500_000_f32.to_bits()], Some(1.0)),
            (Metrics(20), &[0, 0, 0, 0, 0, 0x0007], Some(7.0)),
            (Metrics(22), &[0, 0, 0, 0, 0, 0x00d7_0007], Some(215.0)),
            (Metrics(20), &[0, 0, 0, 0, 0, 0xffff], None),
            // Three levels, the second counts; before 6.0 and since.
            (
                Level(0),
                &[3, 1, 132_000_000, 0, 1_400_000_000, 0, 1_700_000_000, 0],
                Some(1400.0),
            ),
            (
                Level(0),
                &[
                    0,
                    3,
                    1,
                    0,
                    132_000_000,
                    0,
                    1_400_000_000,
                    0,
                    1_700_000_000,
                    0,
                ],
                Some(1400.0),
            ),
            (Level(0), &[1, 1, 0, 0, 132_000_000, 0], Some(132.0)),
            (Level(0), &[1, 0, 132_000_000, 0], Some(132.0)),
            (Level(0), &[0, 0, 0, 0], None),
            (Level(0), &none, None),
        ];
        for (shape, words, expected) in cases {
            let found = shape.number(&bytes(words));
            let close = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
                (found, expected) => found == *expected,
            };
            assert!(close, "{shape:?} {words:?}: {found:?}");
        }
        assert_eq!(U64(1.0).number(&[1, 2]), None);
    }

    #[test]
    fn addresses_are_those_of_sysfs() {
        assert_eq!(pci_address(0, 0x1000), "0000:10:00.0");
        assert_eq!(pci_address(0x1_0000, 0xc10b), "10000:c1:01.3");
    }

    #[test]
    fn what_is_no_smi_library_is_told() {
        let load = |name: &str| Library::open(Some(OsStr::new(name))).expect_err(name);
        assert_eq!(load("libc.so.6"), "it is no SMI library");
        assert_eq!(load("/nonexistent/libx.so"), NOT_THERE);
        assert!(load("/proc/version").contains("/proc/version"));
    }
}
