create table rocpd_track (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, queue_id integer, stream_id integer, name_id integer);
create table rocpd_info_category (id integer primary key, name text);
create table rocpd_region (id integer primary key, track_id integer, name_id integer, start bigint, end bigint, event_id integer);
create table rocpd_kernel_dispatch (id integer primary key, track_id integer, kernel_id integer, start bigint, end bigint, grid_size_x integer,
    grid_size_y integer, grid_size_z integer, event_id integer);
create table rocpd_memory_copy (id integer primary key, track_id integer, start bigint, end bigint, name_id integer, dst_agent_id integer,
    src_agent_id integer, size integer, event_id integer);
create table rocpd_memory_allocate (id integer primary key, track_id integer, type text, level text, start bigint, end bigint, address integer, size integer,
    event_id integer);
insert into rocpd_track values (1, 7, 1, 1, null, null, null, null), (2, 7, 1, 1, 3, 4, 2, null), (3, 7, 1, 1, 2, 4, 0, null);
insert into rocpd_info_category values (1, 'HIP_RUNTIME_API'), (2, 'MARKER_CORE_API');
insert into rocpd_region values (1, 1, 3, 90, 95, 1), (2, 1, 4, 80, 400, 2), (3, 1, 6, 400, 400, 5);
insert into rocpd_kernel_dispatch values (1, 2, 1, 100, 250, 64, 2, 1, 3), (2, 2, 2, 260, 255, 1, 1, 1, null), (3, 3, 2, 260, 300, 1, 1, 1, null);
insert into rocpd_memory_copy values (1, 2, 400, 420, 5, 1, 3, 4096, 4);
insert into rocpd_memory_allocate values (1, 1, 'ALLOC', 'REAL', 50, 55, 32512, 1024, null);
