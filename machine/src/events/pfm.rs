//! The processor's own events as libpfm4 names them, where that library is installed.
//!
//! Layouts and numbers are those of perfmon/pfmlib.h and pfmlib_perf_event.h of libpfm 4.13; the library checks the sizes that it is
//! given, and has kept these layouts (ABI 0) since its first release.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use super::{Access, Counter};
use crate::perf::{Event, Machine};
use crate::roots::Roots;

const LIBRARY: &CStr = c"libpfm.so.4";

/// PFM_SUCCESS.
const SUCCESS: c_int = 0;
/// PFM_OS_PERF_EVENT.
const OS_PERF_EVENT: c_int = 1;
/// PFM_PLM3: user mode.
const USER_MODE: c_int = 8;
/// PFM_PMU_TYPE_CORE.
const TYPE_CORE: c_int = 1;
/// PFM_ATTR_UMASK.
const ATTRIBUTE_UNIT_MASK: c_int = 1;
/// More units than any version of the library knows: 4.13 has about 520.
const MANY_UNITS: c_int = 1024;

/// `pfm_pmu_info_t`.
#[repr(C)]
struct PmuInfo {
    name: *const c_char,
    description: *const c_char,
    size: usize,
    pmu: c_int,
    kind: c_int,
    events: c_int,
    first_event: c_int,
    max_encoding: c_int,
    counters: c_int,
    fixed_counters: c_int,
    /// Bit 0: the unit is in this machine.
    flags: c_uint,
}
const _: () = assert!(size_of::<PmuInfo>() == 56);

/// `pfm_event_info_t`.
#[repr(C)]
struct EventInfo {
    name: *const c_char,
    description: *const c_char,
    equivalent: *const c_char,
    size: usize,
    code: u64,
    pmu: c_int,
    data_type: c_int,
    index: c_int,
    attributes: c_int,
    reserved: c_int,
    flags: c_uint,
}
const _: () = assert!(size_of::<EventInfo>() == 64);

/// `pfm_event_attr_info_t`.
#[repr(C)]
struct AttributeInfo {
    name: *const c_char,
    description: *const c_char,
    equivalent: *const c_char,
    size: usize,
    code: u64,
    kind: c_int,
    index: c_int,
    control: c_int,
    flags: c_uint,
    default: u64,
}
const _: () = assert!(size_of::<AttributeInfo>() == 64);

/// `pfm_perf_encode_arg_t`.
#[repr(C)]
struct EncodeArgument {
    attributes: *mut c_void,
    name: *mut *mut c_char,
    size: usize,
    index: c_int,
    processor: c_int,
    flags: c_int,
    padding: c_int,
}
const _: () = assert!(size_of::<EncodeArgument>() == 40);

/// The library's functions.
struct Library {
    pmu_info: unsafe extern "C" fn(c_int, *mut PmuInfo) -> c_int,
    event_next: unsafe extern "C" fn(c_int) -> c_int,
    event_info: unsafe extern "C" fn(c_int, c_int, *mut EventInfo) -> c_int,
    attribute_info: unsafe extern "C" fn(c_int, c_int, c_int, *mut AttributeInfo) -> c_int,
    encode: unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_void) -> c_int,
}

/// The event of a name of libpfm4's, with or without the name of its unit.
pub(super) fn find(roots: &Roots, name: &str) -> Option<Event> {
    // The library looks at the machine itself.
    if roots.is_simulated() {
        return None;
    }
    Library::load()?.encoded(name)
}

/// All events of the units in this machine; with `unit_masks`, one for each of their masks.
pub(super) fn counters(roots: &Roots, machine: &Machine, unit_masks: bool) -> Vec<Counter> {
    // The library looks at the machine itself.
    if roots.is_simulated() {
        return Vec::new();
    }
    let Some(library) = Library::load() else {
        return Vec::new();
    };
    let mut counters = Vec::new();
    for unit in library.units() {
        let unit_name = name(unit.name);
        let mut index = unit.first_event;
        while index >= 0 {
            if let Some(event) = library.event(index) {
                let masks = library.unit_masks(index, event.attributes);
                library.push_event(
                    &unit_name,
                    &event,
                    &masks,
                    unit_masks,
                    machine,
                    &mut counters,
                );
            }
            // SAFETY: any number may be asked about.
            index = unsafe { (library.event_next)(index) };
        }
    }
    counters
}

impl Library {
    fn load() -> Option<Self> {
        // SAFETY: the name is terminated; the library's constructors have no requirements.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is that of a loaded library, which stays loaded; the name is terminated.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // SAFETY: these are functions of the library with the signatures of its header; initialising it is required before use,
        // and nobody else does so in this process.
        unsafe {
            let initialize: unsafe extern "C" fn() -> c_int =
                std::mem::transmute(find(c"pfm_initialize")?);
            let library = Self {
                pmu_info: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, *mut PmuInfo) -> c_int,
                >(find(c"pfm_get_pmu_info")?),
                event_next: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> c_int>(
                    find(c"pfm_get_event_next")?,
                ),
                event_info: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, c_int, *mut EventInfo) -> c_int,
                >(find(c"pfm_get_event_info")?),
                attribute_info: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, c_int, c_int, *mut AttributeInfo) -> c_int,
                >(find(c"pfm_get_event_attr_info")?),
                encode: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_void) -> c_int,
                >(find(c"pfm_get_os_event_encoding")?),
            };
            (initialize() == SUCCESS).then_some(library)
        }
    }

    /// The processor's units that are in this machine.
    fn units(&self) -> impl Iterator<Item = PmuInfo> + '_ {
        (0..MANY_UNITS).filter_map(|number| {
            // SAFETY: numbers and null pointers are valid contents of the structure.
            let mut info: PmuInfo = unsafe { std::mem::zeroed() };
            info.size = size_of::<PmuInfo>();
            // SAFETY: the structure has the size that its field says.
            let result = unsafe { (self.pmu_info)(number, &raw mut info) };
            (result == SUCCESS && info.flags & 1 == 1 && info.kind == TYPE_CORE).then_some(info)
        })
    }

    fn event(&self, index: c_int) -> Option<EventInfo> {
        // SAFETY: numbers and null pointers are valid contents of the structure.
        let mut info: EventInfo = unsafe { std::mem::zeroed() };
        info.size = size_of::<EventInfo>();
        // SAFETY: the structure has the size that its field says.
        let result = unsafe { (self.event_info)(index, OS_PERF_EVENT, &raw mut info) };
        (result == SUCCESS).then_some(info)
    }

    /// Name and meaning of an event's unit masks.
    fn unit_masks(&self, event: c_int, count: c_int) -> Vec<(String, String)> {
        (0..count)
            .filter_map(|attribute| {
                // SAFETY: numbers and null pointers are valid contents of the structure.
                let mut info: AttributeInfo = unsafe { std::mem::zeroed() };
                info.size = size_of::<AttributeInfo>();
                // SAFETY: the structure has the size that its field says.
                let result = unsafe {
                    (self.attribute_info)(event, attribute, OS_PERF_EVENT, &raw mut info)
                };
                (result == SUCCESS && info.kind == ATTRIBUTE_UNIT_MASK)
                    .then(|| (name(info.name), name(info.description)))
            })
            .collect()
    }

    fn push_event(
        &self,
        unit: &str,
        event: &EventInfo,
        masks: &[(String, String)],
        each_mask: bool,
        machine: &Machine,
        counters: &mut Vec<Counter>,
    ) {
        let event_name = format!("{unit}::{}", name(event.name));
        let summary = name(event.description);
        let mut push = |full_name: String, spoken: String, details: String, encoded: &str| {
            let access = match self.encoded(encoded) {
                Some(event) => Access::from(machine.probe(&event)),
                None => Access::No(
                    "libpfm4 cannot encode it here".to_owned(),
                    "The kernel lacks the unit that it counts on.".to_owned(),
                ),
            };
            counters.push(Counter {
                name: full_name,
                also: Vec::new(),
                device: "CPU".to_owned(),
                kind: "Libpfm",
                summary: spoken,
                details,
                access,
            });
        };
        if each_mask && !masks.is_empty() {
            for (mask, meaning) in masks {
                let full_name = format!("{event_name}:{mask}");
                let encoded = full_name.clone();
                push(
                    full_name,
                    format!("{summary}: {meaning}"),
                    String::new(),
                    &encoded,
                );
            }
            return;
        }
        let listed: Vec<String> = masks
            .iter()
            .map(|(mask, meaning)| format!(":{mask} {meaning}"))
            .collect();
        let encoded = match masks.first() {
            Some((mask, _)) => format!("{event_name}:{mask}"),
            None => event_name.clone(),
        };
        push(event_name.clone(), summary, listed.join("; "), &encoded);
    }

    /// The perf event of a name.
    fn encoded(&self, name: &str) -> Option<Event> {
        let name = CString::new(name).ok()?;
        // More room than any perf_event_attr takes.
        let mut attributes = [0_u64; 32];
        let mut argument = EncodeArgument {
            attributes: attributes.as_mut_ptr().cast(),
            name: std::ptr::null_mut(),
            size: size_of::<EncodeArgument>(),
            index: 0,
            processor: -1,
            flags: 0,
            padding: 0,
        };
        // SAFETY: name is terminated, the argument has the size that its field says and points to room for the attributes.
        let result = unsafe {
            (self.encode)(
                name.as_ptr(),
                USER_MODE,
                OS_PERF_EVENT,
                (&raw mut argument).cast(),
            )
        };
        // type; config; config1 and config2 at bytes 56 and 64.
        let kind = u32::try_from(attributes[0] & 0xffff_ffff).ok()?;
        (result == SUCCESS).then_some(Event {
            config: [attributes[1], attributes[7], attributes[8]],
            ..Event::new(kind, 0)
        })
    }
}

/// A text of the library.
fn name(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the library's texts are terminated and live as long as the library.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
