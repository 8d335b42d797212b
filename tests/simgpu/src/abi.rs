//! The structures of the compute driver's calls, as in the kernel's `kfd_ioctl.h` (interface 1.14).
//!
//! The interface only ever grows at the end, so these hold for all versions of the runtimes.

/// Number of each call.
pub mod number {
    /// Interface version.
    pub const GET_VERSION: u8 = 0x01;
    /// New queue.
    pub const CREATE_QUEUE: u8 = 0x02;
    /// End of a queue.
    pub const DESTROY_QUEUE: u8 = 0x03;
    /// Cache policy.
    pub const SET_MEMORY_POLICY: u8 = 0x04;
    /// Correlated clocks.
    pub const GET_CLOCK_COUNTERS: u8 = 0x05;
    /// Change of a queue.
    pub const UPDATE_QUEUE: u8 = 0x07;
    /// New event.
    pub const CREATE_EVENT: u8 = 0x08;
    /// End of an event.
    pub const DESTROY_EVENT: u8 = 0x09;
    /// Raises an event.
    pub const SET_EVENT: u8 = 0x0a;
    /// Clears an event.
    pub const RESET_EVENT: u8 = 0x0b;
    /// Waits for events.
    pub const WAIT_EVENTS: u8 = 0x0c;
    /// Scratch memory.
    pub const SET_SCRATCH_BACKING_VA: u8 = 0x11;
    /// Tiling.
    pub const GET_TILE_CONFIG: u8 = 0x12;
    /// Trap handler.
    pub const SET_TRAP_HANDLER: u8 = 0x13;
    /// Address ranges.
    pub const GET_PROCESS_APERTURES_NEW: u8 = 0x14;
    /// Address space.
    pub const ACQUIRE_VM: u8 = 0x15;
    /// Allocation.
    pub const ALLOC_MEMORY: u8 = 0x16;
    /// End of an allocation.
    pub const FREE_MEMORY: u8 = 0x17;
    /// Access for GPUs.
    pub const MAP_MEMORY: u8 = 0x18;
    /// End of access.
    pub const UNMAP_MEMORY: u8 = 0x19;
    /// Choice of compute units.
    pub const SET_CU_MASK: u8 = 0x1a;
    /// What a dma-buf is of.
    pub const GET_DMABUF_INFO: u8 = 0x1c;
    /// Memory behind a dma-buf.
    pub const IMPORT_DMABUF: u8 = 0x1d;
    /// Global wave sync.
    pub const ALLOC_QUEUE_GWS: u8 = 0x1e;
    /// Events for whoever watches a GPU.
    pub const SMI_EVENTS: u8 = 0x1f;
    /// Page faults by retry.
    pub const SET_XNACK_MODE: u8 = 0x21;
    /// Free device memory.
    pub const AVAILABLE_MEMORY: u8 = 0x23;
    /// A dma-buf of memory.
    pub const EXPORT_DMABUF: u8 = 0x24;
    /// Runtime's presence.
    pub const RUNTIME_ENABLE: u8 = 0x25;
    /// Memory of another process (ROCm's own kernel).
    pub const IPC_IMPORT: u8 = 0x80;
    /// Memory for another process (ROCm's own kernel).
    pub const IPC_EXPORT: u8 = 0x81;
}

/// Flags of allocations.
pub mod flag {
    /// Device memory.
    pub const VRAM: u32 = 1 << 0;
    /// Host memory that the driver gives out.
    pub const GTT: u32 = 1 << 1;
    /// Host memory of the process.
    pub const USERPTR: u32 = 1 << 2;
    /// Doorbells.
    pub const DOORBELL: u32 = 1 << 3;
    /// Registers.
    pub const MMIO_REMAP: u32 = 1 << 4;
}

/// Types of events.
pub mod event {
    /// Completion of packets.
    pub const SIGNAL: u32 = 0;
    /// The GPU was reset.
    pub const HW_EXCEPTION: u32 = 3;
    /// Memory faults.
    pub const MEMORY: u32 = 8;
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            #[allow(missing_docs, reason = "the names are the kernel's")]
            pub struct $name { $(pub $field: $type,)* }
            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

structures! {
    /// `kfd_ioctl_get_version_args`
    GetVersion = 8 { major: u32, minor: u32, }
    /// `kfd_ioctl_create_queue_args`
    CreateQueue = 88 {
        ring_base_address: u64, write_pointer_address: u64, read_pointer_address: u64, doorbell_offset: u64,
        ring_size: u32, gpu_id: u32, queue_type: u32, queue_percentage: u32, queue_priority: u32, queue_id: u32,
        eop_buffer_address: u64, eop_buffer_size: u64, ctx_save_restore_address: u64,
        ctx_save_restore_size: u32, ctl_stack_size: u32,
    }
    /// `kfd_ioctl_destroy_queue_args`
    DestroyQueue = 8 { queue_id: u32, pad: u32, }
    /// `kfd_ioctl_update_queue_args`
    UpdateQueue = 24 {
        ring_base_address: u64, queue_id: u32, ring_size: u32, queue_percentage: u32, queue_priority: u32,
    }
    /// `kfd_ioctl_get_clock_counters_args`
    GetClockCounters = 40 {
        gpu_clock_counter: u64, cpu_clock_counter: u64, system_clock_counter: u64, system_clock_freq: u64,
        gpu_id: u32, pad: u32,
    }
    /// `kfd_process_device_apertures`
    Apertures = 56 {
        lds_base: u64, lds_limit: u64, scratch_base: u64, scratch_limit: u64, gpuvm_base: u64, gpuvm_limit: u64,
        gpu_id: u32, pad: u32,
    }
    /// `kfd_ioctl_get_process_apertures_new_args`
    GetApertures = 16 { apertures: u64, num_of_nodes: u32, pad: u32, }
    /// `kfd_ioctl_create_event_args`
    CreateEvent = 32 {
        event_page_offset: u64, event_trigger_data: u32, event_type: u32, auto_reset: u32, node_id: u32,
        event_id: u32, event_slot_index: u32,
    }
    /// Arguments of the calls that name one event
    OneEvent = 8 { event_id: u32, pad: u32, }
    /// `kfd_event_data`; `data` is the union of answers
    EventData = 48 { data: [u64; 4], extension: u64, event_id: u32, pad: u32, }
    /// `kfd_ioctl_wait_events_args`
    WaitEvents = 24 { events: u64, num_events: u32, wait_for_all: u32, timeout: u32, wait_result: u32, }
    /// `kfd_ioctl_get_tile_config_args`
    GetTileConfig = 40 {
        tile_config: u64, macro_tile_config: u64, num_tile_configs: u32, num_macro_tile_configs: u32,
        gpu_id: u32, gb_addr_config: u32, num_banks: u32, num_ranks: u32,
    }
    /// `kfd_ioctl_alloc_memory_of_gpu_args`
    AllocMemory = 40 { va_addr: u64, size: u64, handle: u64, mmap_offset: u64, gpu_id: u32, flags: u32, }
    /// `kfd_ioctl_free_memory_of_gpu_args`
    FreeMemory = 8 { handle: u64, }
    /// `kfd_ioctl_map_memory_to_gpu_args`, and the same for unmapping
    MapMemory = 24 { handle: u64, device_ids: u64, n_devices: u32, n_success: u32, }
    /// `kfd_ioctl_get_dmabuf_info_args`
    GetDmabufInfo = 32 { size: u64, metadata: u64, metadata_size: u32, gpu_id: u32, flags: u32, dmabuf_fd: i32, }
    /// `kfd_ioctl_import_dmabuf_args`
    ImportDmabuf = 24 { va_addr: u64, handle: u64, gpu_id: u32, dmabuf_fd: i32, }
    /// `kfd_ioctl_export_dmabuf_args`
    ExportDmabuf = 16 { handle: u64, flags: u32, dmabuf_fd: i32, }
    /// `kfd_ioctl_alloc_queue_gws_args`
    AllocQueueGws = 16 { queue_id: u32, num_gws: u32, first_gws: u32, pad: u32, }
    /// `kfd_ioctl_smi_events_args`
    SmiEvents = 8 { gpu_id: u32, anon_fd: i32, }
    /// `kfd_ioctl_set_xnack_mode_args`
    SetXnackMode = 4 { xnack_enabled: i32, }
    /// `kfd_ioctl_get_available_memory_args`
    AvailableMemory = 16 { available: u64, gpu_id: u32, pad: u32, }
    /// `kfd_ioctl_ipc_export_handle_args` of ROCm's kernel
    IpcExport = 32 { handle: u64, share_handle: [u32; 4], gpu_id: u32, flags: u32, }
    /// `kfd_ioctl_ipc_import_handle_args` of ROCm's kernel
    IpcImport = 48 { handle: u64, va_addr: u64, mmap_offset: u64, share_handle: [u32; 4], gpu_id: u32, flags: u32, }
}
