//! What we know of HIP's calls: which are not worth an event, and where their arguments are.
//!
//! The places were taken from the headers of 5.2.3, 5.7.1, 6.4.3 and 7.2.4, which agree in all of them. A call is known by its name,
//! which the runtime gives. Places are offsets in the tracer's record; arguments begin at 16. Behind a pointer to something whose type is
//! known, there is room for the thing itself, which HIP does not fill: a result takes two words, the configuration of a launch eight.

use rsys_wire::event::Key;

use crate::sources::gpu::hip::copies::Direction;

/// Calls are numbered from 0 almost without gaps; 7.2 has 449.
pub const MOST_CALLS: usize = 1024;

/// What a call does to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Launches one kernel.
    Launch,
    /// Copies or fills memory, or launches more than one kernel.
    Work,
    /// Launches a graph.
    Graph,
    /// No operation, but it may block its thread: waits for a GPU, makes memory or gives it back.
    Blocks,
    /// No operation, and it returns at once.
    Nothing,
}

impl Does {
    /// Whether operations may come of the call.
    #[inline]
    pub fn works(self) -> bool {
        matches!(self, Does::Launch | Does::Work | Does::Graph)
    }

    /// Whether the call stack from which it was made is recorded.
    #[inline]
    pub fn wants_stack(self) -> bool {
        self != Does::Nothing
    }
}

/// How an argument is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A pointer or handle.
    Pointer(u16),
    /// A number of 32 bits.
    U32(u16),
    /// A number of 64 bits.
    U64(u16),
    /// A number of 64 bits, times a constant.
    Times(u16, u64),
    /// Two numbers of 64 bits in a row, multiplied, times a constant.
    Area(u16, u64),
    /// Three numbers of 64 bits in a row, multiplied, unless one of these two pointers is set: then they count elements of an array, whose
    /// size is not known.
    Box(u16, [u16; 2]),
    /// The sum of numbers of 64 bits, behind a pointer; the second place holds how many.
    Sum(u16, u16),
    /// The same of the boxes of `hipMemcpy3DBatchOp`, behind a pointer.
    Boxes(u16, u16),
    /// What is behind a pointer; places are within that.
    In(u16, &'static Form),
    /// Three numbers of 32 bits.
    Size3(u16),
    /// Work-items in three dimensions; the work-group's size follows.
    Items3(u16),
    /// A kind of copy.
    Kind(u16),
    /// A direction that the call itself means.
    Means(Direction),
    /// The kernel behind a function of the program.
    Function(u16),
    /// The kernel behind a handle.
    Handle(u16),
    /// The default stream: the call takes none.
    DefaultStream,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// Its name.
    pub name: &'static [u8],
    /// What it does to a GPU.
    pub does: Does,
    /// What is known when it begins.
    pub begin: &'static [(Key, Form)],
    /// What is known when it ends: the place of a pointer to the result.
    pub end: Option<(Key, u16)>,
}

/// Not recorded: called very often, ask only, and cause nothing.
pub const SKIPPED: &[&[u8]] = &[
    b"__hipPushCallConfiguration",
    b"__hipPopCallConfiguration",
    b"hipGetLastError",
    b"hipPeekAtLastError",
    b"hipExtGetLastError",
    b"hipGetDevice",
    b"hipGetDeviceCount",
    b"hipCtxGetCurrent",
    b"hipCtxSetCurrent",
    b"hipDeviceGetAttribute",
    b"hipEventQuery",
    b"hipStreamIsCapturing",
    b"hipStreamGetCaptureInfo",
    b"hipStreamGetCaptureInfo_v2",
    b"hipThreadExchangeStreamCaptureMode",
    b"hipPointerGetAttributes",
    b"hipPointerGetAttribute",
];

const fn end(result: &[(Key, u16)]) -> Option<(Key, u16)> {
    match result {
        [one, ..] => Some(*one),
        [] => None,
    }
}

macro_rules! calls {
    ($($name:literal $does:ident [$($key:ident = $form:expr),*] $(=> $end_key:ident = $end:literal)?;)*) => {
        /// The calls whose arguments are recorded, or that block.
        pub const CALLS: &[Call] = &[$(
            Call {
                name: $name.as_bytes(),
                does: Does::$does,
                begin: &[$((Key::$key, $form)),*],
                end: const { end(&[$((Key::$end_key, $end))?]) },
            },
        )*];
    };
}

use Direction::{DeviceToDevice, DeviceToHost, HostToDevice};
use Form::{
    Area, Box, Boxes, DefaultStream, Function, Handle, In, Items3, Kind, Means, Pointer, Size3,
    Sum, Times, U32, U64,
};

/// Of `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG`, which is laid out alike but for the size of shared memory.
const GRID: Form = Size3(0);
const WORKGROUP: Form = Size3(12);
const STREAM: Form = Pointer(32);
/// Of `hipMemcpy3DParms` and `hipMemcpy3DPeerParms`.
const BOX: Form = Box(128, [0, 64]);
const PEER_BOX: Form = Box(144, [0, 72]);

#[rustfmt::skip]
calls! {
    "hipLaunchKernel" Launch [Kernel = Function(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U64(64), Stream = Pointer(72)];
    "hipLaunchKernel_spt" Launch [Kernel = Function(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U64(64), Stream = Pointer(72)];
    "hipExtLaunchKernel" Launch [Kernel = Function(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U64(64), Stream = Pointer(72)];
    "hipLaunchCooperativeKernel" Launch [Kernel = Function(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U32(64), Stream = Pointer(72)];
    "hipLaunchKernelExC" Launch [Kernel = Function(80), Grid = In(16, &GRID), Workgroup = In(16, &WORKGROUP), SharedMemory = In(16, &U64(24)), Stream = In(16, &STREAM)];
    "hipDrvLaunchKernelEx" Launch [Kernel = Handle(80), Grid = In(16, &GRID), Workgroup = In(16, &WORKGROUP), SharedMemory = In(16, &U32(24)), Stream = In(16, &STREAM)];
    "hipLaunchByPtr" Launch [Kernel = Function(16)];
    "hipModuleLaunchKernel" Launch [Kernel = Handle(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U32(48), Stream = Pointer(56)];
    "hipModuleLaunchCooperativeKernel" Launch [Kernel = Handle(16), Grid = Size3(24), Workgroup = Size3(36), SharedMemory = U32(48), Stream = Pointer(56)];
    "hipExtModuleLaunchKernel" Launch [Kernel = Handle(16), Grid = Items3(24), Workgroup = Size3(36), SharedMemory = U64(48), Stream = Pointer(56)];
    "hipHccModuleLaunchKernel" Launch [Kernel = Handle(16), Grid = Items3(24), Workgroup = Size3(36), SharedMemory = U64(48), Stream = Pointer(56)];
    "hipLaunchCooperativeKernelMultiDevice" Work [];
    "hipExtLaunchMultiKernelMultiDevice" Work [];
    "hipModuleLaunchCooperativeKernelMultiDevice" Work [];
    "hipGraphLaunch" Graph [Graph = Pointer(16), Stream = Pointer(24)];

    "hipMemcpy" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(40), Stream = DefaultStream];
    "hipMemcpyAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(40), Stream = Pointer(48)];
    "hipMemcpyWithStream" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(40), Stream = Pointer(48)];
    "hipMemcpyHtoD" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(HostToDevice), Stream = DefaultStream];
    "hipMemcpyHtoDAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(HostToDevice), Stream = Pointer(40)];
    "hipMemcpyDtoH" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(DeviceToHost), Stream = DefaultStream];
    "hipMemcpyDtoHAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(DeviceToHost), Stream = Pointer(40)];
    "hipMemcpyDtoD" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(DeviceToDevice), Stream = DefaultStream];
    "hipMemcpyDtoDAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Means(DeviceToDevice), Stream = Pointer(40)];
    "hipMemcpyPeer" Work [Destination = Pointer(16), Source = Pointer(32), Bytes = U64(48), Direction = Means(DeviceToDevice), Stream = DefaultStream];
    "hipMemcpyPeerAsync" Work [Destination = Pointer(16), Source = Pointer(32), Bytes = U64(48), Direction = Means(DeviceToDevice), Stream = Pointer(56)];
    "hipMemcpyToSymbol" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(48), Stream = DefaultStream];
    "hipMemcpyToSymbolAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(48), Stream = Pointer(56)];
    "hipMemcpyFromSymbol" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(48), Stream = DefaultStream];
    "hipMemcpyFromSymbolAsync" Work [Destination = Pointer(16), Source = Pointer(24), Bytes = U64(32), Direction = Kind(48), Stream = Pointer(56)];
    "hipMemcpy2D" Work [Destination = Pointer(16), Source = Pointer(32), Bytes = Area(48, 1), Direction = Kind(64), Stream = DefaultStream];
    "hipMemcpy2DAsync" Work [Destination = Pointer(16), Source = Pointer(32), Bytes = Area(48, 1), Direction = Kind(64), Stream = Pointer(72)];
    "hipMemcpy3D" Work [Bytes = In(16, &BOX), Direction = In(16, &Kind(152)), Stream = DefaultStream];
    "hipMemcpy3DAsync" Work [Bytes = In(16, &BOX), Direction = In(16, &Kind(152)), Stream = Pointer(184)];
    "hipMemcpy3DPeer" Work [Bytes = In(16, &PEER_BOX), Direction = Means(DeviceToDevice), Stream = DefaultStream];
    "hipMemcpy3DPeerAsync" Work [Bytes = In(16, &PEER_BOX), Direction = Means(DeviceToDevice), Stream = Pointer(192)];
    "hipMemcpyBatchAsync" Work [Bytes = Sum(48, 64), Operations = U64(64), Stream = Pointer(144)];
    "hipMemcpy3DBatchAsync" Work [Bytes = Boxes(24, 16), Operations = U64(16), Stream = Pointer(168)];

    "hipMemset" Work [Destination = Pointer(16), Bytes = U64(32), Stream = DefaultStream];
    "hipMemsetAsync" Work [Destination = Pointer(16), Bytes = U64(32), Stream = Pointer(40)];
    "hipMemsetD8" Work [Destination = Pointer(16), Bytes = U64(32), Stream = DefaultStream];
    "hipMemsetD8Async" Work [Destination = Pointer(16), Bytes = U64(32), Stream = Pointer(40)];
    "hipMemsetD16" Work [Destination = Pointer(16), Bytes = Times(32, 2), Stream = DefaultStream];
    "hipMemsetD16Async" Work [Destination = Pointer(16), Bytes = Times(32, 2), Stream = Pointer(40)];
    "hipMemsetD32" Work [Destination = Pointer(16), Bytes = Times(32, 4), Stream = DefaultStream];
    "hipMemsetD32Async" Work [Destination = Pointer(16), Bytes = Times(32, 4), Stream = Pointer(40)];
    "hipMemset2D" Work [Destination = Pointer(16), Bytes = Area(40, 1), Stream = DefaultStream];
    "hipMemset2DAsync" Work [Destination = Pointer(16), Bytes = Area(40, 1), Stream = Pointer(56)];
    "hipMemsetD2D8" Work [Destination = Pointer(16), Bytes = Area(40, 1), Stream = DefaultStream];
    "hipMemsetD2D8Async" Work [Destination = Pointer(16), Bytes = Area(40, 1), Stream = Pointer(56)];
    "hipMemsetD2D16" Work [Destination = Pointer(16), Bytes = Area(40, 2), Stream = DefaultStream];
    "hipMemsetD2D16Async" Work [Destination = Pointer(16), Bytes = Area(40, 2), Stream = Pointer(56)];
    "hipMemsetD2D32" Work [Destination = Pointer(16), Bytes = Area(40, 4), Stream = DefaultStream];
    "hipMemsetD2D32Async" Work [Destination = Pointer(16), Bytes = Area(40, 4), Stream = Pointer(56)];

    "hipMalloc" Blocks [Bytes = U64(32)] => Address = 16;
    "hipMallocManaged" Blocks [Bytes = U64(32)] => Address = 16;
    "hipExtMallocWithFlags" Blocks [Bytes = U64(32)] => Address = 16;
    "hipHostMalloc" Blocks [Bytes = U64(32)] => Address = 16;
    "hipMallocHost" Blocks [Bytes = U64(32)] => Address = 16;
    "hipHostAlloc" Blocks [Bytes = U64(32)] => Address = 16;
    "hipMemAllocHost" Blocks [Bytes = U64(32)] => Address = 16;
    "hipMallocPitch" Blocks [Bytes = Area(48, 1)] => Address = 16;
    "hipMemAllocPitch" Blocks [Bytes = Area(48, 1)] => Address = 16;
    "hipMalloc3D" Blocks [];
    "hipMallocArray" Blocks [];
    "hipMalloc3DArray" Blocks [];
    "hipMallocAsync" Blocks [Bytes = U64(32), Stream = Pointer(40)] => Address = 16;
    "hipMallocFromPoolAsync" Blocks [Bytes = U64(32), Stream = Pointer(48)] => Address = 16;
    "hipFree" Blocks [Address = Pointer(16)];
    "hipFreeArray" Blocks [];
    "hipFreeAsync" Blocks [Address = Pointer(16), Stream = Pointer(24)];
    "hipHostFree" Blocks [Address = Pointer(16)];
    "hipFreeHost" Blocks [Address = Pointer(16)];
    "hipHostRegister" Blocks [Address = Pointer(16), Bytes = U64(24)];
    "hipHostUnregister" Blocks [Address = Pointer(16)];

    "hipDeviceSynchronize" Blocks [];
    "hipDeviceReset" Blocks [];
    "hipCtxSynchronize" Blocks [];

    "hipStreamCreate" Nothing [] => Stream = 16;
    "hipStreamCreateWithFlags" Nothing [Flags = U32(32)] => Stream = 16;
    "hipStreamCreateWithPriority" Nothing [Flags = U32(32)] => Stream = 16;
    "hipExtStreamCreateWithCUMask" Nothing [] => Stream = 16;
    "hipStreamDestroy" Nothing [Stream = Pointer(16)];
    "hipStreamSynchronize" Blocks [Stream = Pointer(16)];
    "hipStreamQuery" Nothing [Stream = Pointer(16)];
    "hipStreamWaitEvent" Nothing [Stream = Pointer(16), Event = Pointer(24)];
    "hipStreamAddCallback" Nothing [Stream = Pointer(16)];
    "hipLaunchHostFunc" Nothing [Stream = Pointer(16)];
    "hipStreamBeginCapture" Nothing [Stream = Pointer(16)];
    "hipStreamEndCapture" Nothing [Stream = Pointer(16)] => Graph = 24;

    "hipEventCreate" Nothing [] => Event = 16;
    "hipEventCreateWithFlags" Nothing [Flags = U32(32)] => Event = 16;
    "hipEventDestroy" Nothing [Event = Pointer(16)];
    "hipEventRecord" Nothing [Event = Pointer(16), Stream = Pointer(24)];
    "hipEventRecordWithFlags" Nothing [Event = Pointer(16), Stream = Pointer(24)];
    "hipEventSynchronize" Blocks [Event = Pointer(16)];

    "hipGraphInstantiate" Nothing [] => Graph = 16;
    "hipGraphInstantiateWithFlags" Nothing [] => Graph = 16;
    "hipGraphUpload" Nothing [Graph = Pointer(16), Stream = Pointer(24)];
    "hipGraphExecDestroy" Nothing [Graph = Pointer(16)];
    "hipModuleUnload" Nothing [];
}

/// The place of a call in [`CALLS`], if its arguments are known.
pub fn find(name: &[u8]) -> Option<usize> {
    CALLS.iter().position(|call| call.name == name)
}
