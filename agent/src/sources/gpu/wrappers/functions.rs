//! The functions of HIP that are wrapped.
#![allow(non_snake_case, reason = "HIP's own names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use rsys_wire::event::{Arg, Key, Value};

use crate::sources::gpu::hip::copies::Direction;
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hip::table::Does;
use crate::sources::gpu::wrappers::kernels;
use crate::sources::gpu::wrappers::{Function, MISSING, is_on, tell};

/// Sizes in three dimensions, as HIP passes them by value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

type Handle = *mut c_void;

fn bytes(size: usize) -> Arg<'static> {
    (Key::Bytes, Value::Uint(size as u64))
}

fn stream(handle: Handle) -> Arg<'static> {
    (Key::Stream, Value::Pointer(handle.addr() as u64))
}

fn default_stream() -> Arg<'static> {
    (Key::Stream, Value::Pointer(0))
}

fn to<T>(place: *const T) -> Arg<'static> {
    (Key::Destination, Value::Pointer(place.addr() as u64))
}

fn from<T>(place: *const T) -> Arg<'static> {
    (Key::Source, Value::Pointer(place.addr() as u64))
}

fn address<T>(place: *const T) -> Arg<'static> {
    (Key::Address, Value::Pointer(place.addr() as u64))
}

fn event(handle: Handle) -> Arg<'static> {
    (Key::Event, Value::Pointer(handle.addr() as u64))
}

fn graph(handle: Handle) -> Arg<'static> {
    (Key::Graph, Value::Pointer(handle.addr() as u64))
}

fn device(number: c_int) -> Arg<'static> {
    (Key::Device, Value::Int(i64::from(number)))
}

fn value(number: c_int) -> Arg<'static> {
    (Key::Value, Value::Int(i64::from(number)))
}

fn flags(number: c_uint) -> Arg<'static> {
    (Key::Flags, Value::Uint(u64::from(number)))
}

fn grid(size: Dim3) -> Arg<'static> {
    (Key::Grid, Value::Size3([size.x, size.y, size.z]))
}

fn workgroup(size: Dim3) -> Arg<'static> {
    (Key::Workgroup, Value::Size3([size.x, size.y, size.z]))
}

fn shared(size: usize) -> Arg<'static> {
    (Key::SharedMemory, Value::Uint(size as u64))
}

fn direction(kind: c_int) -> Arg<'static> {
    let text = match Direction::from_kind(kind.cast_unsigned()) {
        Direction::Unknown => b"default",
        direction => direction.text(),
    };
    (Key::Direction, Value::Known(names::key(text)))
}

/// What a call put behind a pointer to its result.
///
/// # Safety
/// The place is null, or the call has stored its result there.
unsafe fn result(key: Key, place: *const Handle) -> Option<Arg<'static>> {
    // SAFETY: the call has succeeded, so it has written there.
    let handle = unsafe { place.as_ref() }?;
    Some((key, Value::Pointer(handle.addr() as u64)))
}

macro_rules! wrappers {
    ($($name:ident $symbol:literal $does:ident ($($argument:ident: $type:ty),*)
        [$($shown:expr),*] $(=> $key:ident $place:ident)?;)*) => {
        $(
            /// Wraps the function of HIP that has this name.
            ///
            /// # Safety
            /// As HIP documents it.
            #[unsafe(export_name = $symbol)]
            #[allow(clippy::too_many_arguments, reason = "HIP's function has as many")]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                static FUNCTION: Function = Function::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                        Ok(symbol) => symbol,
                        Err(_) => panic!("a name without NUL"),
                    },
                    stringify!($name),
                );
                let address = FUNCTION.address();
                // SAFETY: the signature that HIP's headers give; null is None.
                let real = unsafe {
                    std::mem::transmute::<*mut (), Option<unsafe extern "C" fn($($type),*) -> c_int>>(address)
                };
                let Some(real) = real else {
                    return MISSING;
                };
                // SAFETY: the caller's own arguments.
                let call = || unsafe { real($($argument),*) };
                if !is_on() {
                    return call();
                }
                let after = || {
                    // SAFETY: only after a success.
                    $( return unsafe { result(Key::$key, $place.cast_const().cast()) }; )?
                    #[allow(unreachable_code, reason = "where nothing is returned")]
                    None
                };
                tell(&FUNCTION, Does::$does, &[$($shown),*], call, after)
            }
        )*
    };
}

#[rustfmt::skip]
wrappers! {
    hipLaunchKernel "hipLaunchKernel" Work (function: *const c_void, blocks: Dim3, threads: Dim3, args: *mut Handle, lds: usize, queue: Handle)
        [kernels::of_function(function, queue), grid(blocks), workgroup(threads), shared(lds), stream(queue)];
    hipLaunchKernel_spt "hipLaunchKernel_spt" Work (function: *const c_void, blocks: Dim3, threads: Dim3, args: *mut Handle, lds: usize, queue: Handle)
        [kernels::of_function(function, queue), grid(blocks), workgroup(threads), shared(lds), stream(queue)];
    hipExtLaunchKernel "hipExtLaunchKernel" Work (function: *const c_void, blocks: Dim3, threads: Dim3, args: *mut Handle, lds: usize, queue: Handle, start: Handle, stop: Handle, how: c_int)
        [kernels::of_function(function, queue), grid(blocks), workgroup(threads), shared(lds), stream(queue)];
    hipLaunchCooperativeKernel "hipLaunchCooperativeKernel" Work (function: *const c_void, blocks: Dim3, threads: Dim3, args: *mut Handle, lds: c_uint, queue: Handle)
        [kernels::of_function(function, queue), grid(blocks), workgroup(threads), shared(lds as usize), stream(queue)];
    hipModuleLaunchKernel "hipModuleLaunchKernel" Work (function: Handle, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, lds: c_uint, queue: Handle, args: *mut Handle, extra: *mut Handle)
        [kernels::of_handle(function), grid(Dim3 { x: gx, y: gy, z: gz }), workgroup(Dim3 { x: bx, y: by, z: bz }), shared(lds as usize), stream(queue)];
    hipExtModuleLaunchKernel "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j" Work (function: Handle, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, lds: usize, queue: Handle, args: *mut Handle, extra: *mut Handle, start: Handle, stop: Handle, how: c_uint)
        [kernels::of_handle(function), grid(Dim3 { x: gx / bx.max(1), y: gy / by.max(1), z: gz / bz.max(1) }), workgroup(Dim3 { x: bx, y: by, z: bz }), shared(lds), stream(queue)];
    hipGraphLaunch "hipGraphLaunch" Work (executable: Handle, queue: Handle) [graph(executable), stream(queue)];

    hipMemcpy "hipMemcpy" Work (target: Handle, source: *const c_void, size: usize, kind: c_int) [to(target), from(source), bytes(size), direction(kind), default_stream()];
    hipMemcpy_spt "hipMemcpy_spt" Work (target: Handle, source: *const c_void, size: usize, kind: c_int) [to(target), from(source), bytes(size), direction(kind)];
    hipMemcpyWithStream "hipMemcpyWithStream" Work (target: Handle, source: *const c_void, size: usize, kind: c_int, queue: Handle) [to(target), from(source), bytes(size), direction(kind), stream(queue)];
    hipMemcpyAsync "hipMemcpyAsync" Work (target: Handle, source: *const c_void, size: usize, kind: c_int, queue: Handle) [to(target), from(source), bytes(size), direction(kind), stream(queue)];
    hipMemcpyAsync_spt "hipMemcpyAsync_spt" Work (target: Handle, source: *const c_void, size: usize, kind: c_int, queue: Handle) [to(target), from(source), bytes(size), direction(kind), stream(queue)];
    hipMemcpyHtoD "hipMemcpyHtoD" Work (target: Handle, source: Handle, size: usize) [to(target), from(source), bytes(size), direction(1), default_stream()];
    hipMemcpyDtoH "hipMemcpyDtoH" Work (target: Handle, source: Handle, size: usize) [to(target), from(source), bytes(size), direction(2), default_stream()];
    hipMemcpyDtoD "hipMemcpyDtoD" Work (target: Handle, source: Handle, size: usize) [to(target), from(source), bytes(size), direction(3), default_stream()];
    hipMemcpyHtoDAsync "hipMemcpyHtoDAsync" Work (target: Handle, source: Handle, size: usize, queue: Handle) [to(target), from(source), bytes(size), direction(1), stream(queue)];
    hipMemcpyDtoHAsync "hipMemcpyDtoHAsync" Work (target: Handle, source: Handle, size: usize, queue: Handle) [to(target), from(source), bytes(size), direction(2), stream(queue)];
    hipMemcpyDtoDAsync "hipMemcpyDtoDAsync" Work (target: Handle, source: Handle, size: usize, queue: Handle) [to(target), from(source), bytes(size), direction(3), stream(queue)];
    hipMemcpyPeer "hipMemcpyPeer" Work (target: Handle, there: c_int, source: *const c_void, here: c_int, size: usize) [to(target), from(source), bytes(size), direction(3), default_stream()];
    hipMemcpyPeerAsync "hipMemcpyPeerAsync" Work (target: Handle, there: c_int, source: *const c_void, here: c_int, size: usize, queue: Handle) [to(target), from(source), bytes(size), direction(3), stream(queue)];
    hipMemcpy2D "hipMemcpy2D" Work (target: Handle, to_pitch: usize, source: *const c_void, from_pitch: usize, width: usize, height: usize, kind: c_int)
        [to(target), from(source), bytes(width.wrapping_mul(height)), direction(kind), default_stream()];
    hipMemcpy2DAsync "hipMemcpy2DAsync" Work (target: Handle, to_pitch: usize, source: *const c_void, from_pitch: usize, width: usize, height: usize, kind: c_int, queue: Handle)
        [to(target), from(source), bytes(width.wrapping_mul(height)), direction(kind), stream(queue)];
    hipMemcpyToSymbol "hipMemcpyToSymbol" Work (symbol: *const c_void, source: *const c_void, size: usize, offset: usize, kind: c_int) [from(source), bytes(size), direction(kind), default_stream()];
    hipMemcpyFromSymbol "hipMemcpyFromSymbol" Work (target: Handle, symbol: *const c_void, size: usize, offset: usize, kind: c_int) [to(target), bytes(size), direction(kind), default_stream()];
    hipMemset "hipMemset" Work (target: Handle, with: c_int, size: usize) [to(target), value(with), bytes(size), default_stream()];
    hipMemsetAsync "hipMemsetAsync" Work (target: Handle, with: c_int, size: usize, queue: Handle) [to(target), value(with), bytes(size), stream(queue)];
    hipMemsetD8 "hipMemsetD8" Work (target: Handle, with: u8, count: usize) [to(target), value(c_int::from(with)), bytes(count), default_stream()];
    hipMemsetD16 "hipMemsetD16" Work (target: Handle, with: u16, count: usize) [to(target), value(c_int::from(with)), bytes(count.wrapping_mul(2)), default_stream()];
    hipMemsetD32 "hipMemsetD32" Work (target: Handle, with: c_int, count: usize) [to(target), value(with), bytes(count.wrapping_mul(4)), default_stream()];
    hipMemsetD32Async "hipMemsetD32Async" Work (target: Handle, with: c_int, count: usize, queue: Handle) [to(target), value(with), bytes(count.wrapping_mul(4)), stream(queue)];
    hipMemset2D "hipMemset2D" Work (target: Handle, pitch: usize, with: c_int, width: usize, height: usize) [to(target), value(with), bytes(width.wrapping_mul(height)), default_stream()];
    hipMemset2DAsync "hipMemset2DAsync" Work (target: Handle, pitch: usize, with: c_int, width: usize, height: usize, queue: Handle) [to(target), value(with), bytes(width.wrapping_mul(height)), stream(queue)];

    hipMalloc "hipMalloc" Blocks (place: *mut Handle, size: usize) [bytes(size)] => Address place;
    hipMallocManaged "hipMallocManaged" Blocks (place: *mut Handle, size: usize, how: c_uint) [bytes(size)] => Address place;
    hipMallocPitch "hipMallocPitch" Blocks (place: *mut Handle, pitch: *mut usize, width: usize, height: usize) [bytes(width.wrapping_mul(height))] => Address place;
    hipMallocAsync "hipMallocAsync" Blocks (place: *mut Handle, size: usize, queue: Handle) [bytes(size), stream(queue)] => Address place;
    hipHostMalloc "hipHostMalloc" Blocks (place: *mut Handle, size: usize, how: c_uint) [bytes(size), flags(how)] => Address place;
    hipHostRegister "hipHostRegister" Blocks (place: Handle, size: usize, how: c_uint) [address(place), bytes(size), flags(how)];
    hipHostUnregister "hipHostUnregister" Blocks (place: Handle) [address(place)];
    hipFree "hipFree" Blocks (place: Handle) [address(place)];
    hipFreeAsync "hipFreeAsync" Blocks (place: Handle, queue: Handle) [address(place), stream(queue)];
    hipHostFree "hipHostFree" Blocks (place: Handle) [address(place)];

    hipDeviceSynchronize "hipDeviceSynchronize" Blocks () [];
    hipDeviceReset "hipDeviceReset" Blocks () [];
    hipSetDevice "hipSetDevice" Nothing (number: c_int) [device(number)];
    hipStreamCreate "hipStreamCreate" Nothing (place: *mut Handle) [] => Stream place;
    hipStreamCreateWithFlags "hipStreamCreateWithFlags" Nothing (place: *mut Handle, how: c_uint) [flags(how)] => Stream place;
    hipStreamCreateWithPriority "hipStreamCreateWithPriority" Nothing (place: *mut Handle, how: c_uint, priority: c_int) [flags(how)] => Stream place;
    hipStreamDestroy "hipStreamDestroy" Nothing (queue: Handle) [stream(queue)];
    hipStreamSynchronize "hipStreamSynchronize" Blocks (queue: Handle) [stream(queue)];
    hipStreamWaitEvent "hipStreamWaitEvent" Work (queue: Handle, what: Handle, how: c_uint) [stream(queue), event(what)];
    hipStreamAddCallback "hipStreamAddCallback" Work (queue: Handle, callback: *const c_void, data: Handle, how: c_uint) [stream(queue)];
    hipEventRecord "hipEventRecord" Work (what: Handle, queue: Handle) [event(what), stream(queue)];
    hipEventSynchronize "hipEventSynchronize" Blocks (what: Handle) [event(what)];
    hipModuleLoad "hipModuleLoad" Nothing (module: *mut Handle, path: *const c_char) [];
    hipModuleLoadData "hipModuleLoadData" Nothing (module: *mut Handle, image: *const c_void) [];
    hipGraphInstantiate "hipGraphInstantiate" Nothing (executable: *mut Handle, template: Handle, error: *mut Handle, log: *mut c_char, size: usize) [] => Graph executable;
}
