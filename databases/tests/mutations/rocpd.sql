create table rocpd_region (id integer primary key, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer, event_id integer);
create table rocpd_kernel_dispatch (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, kernel_id integer, queue_id integer,
    stream_id integer, start bigint, end bigint, grid_size_x integer, grid_size_y integer, grid_size_z integer, event_id integer);
create table rocpd_memory_copy (id integer primary key, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer,
    dst_agent_id integer, src_agent_id integer, size integer, queue_id integer, stream_id integer, event_id integer);
create table rocpd_memory_allocate (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, type text, level text,
    start bigint, end bigint, address integer, size integer, event_id integer);
insert into rocpd_region values (1, 7, 1, 1, 90, 95, 3, 1), (2, 7, 1, 1, 80, 400, 4, 2), (3, 7, 1, 1, 400, 400, 6, 5);
insert into rocpd_kernel_dispatch values (1, 7, 1, 1, 3, 1, 4, 2, 100, 250, 64, 2, 1, 3), (2, 7, 1, 1, 3, 2, 4, 0, 260, 255, 1, 1, 1, null),
    (3, 7, 1, 1, 2, 2, 4, 0, 260, 300, 1, 1, 1, null);
insert into rocpd_memory_copy values (1, 7, 1, 1, 400, 420, 5, 1, 3, 4096, 4, 2, 4);
insert into rocpd_memory_allocate values (1, 7, 1, 1, 3, 'ALLOC', 'REAL', 50, 55, 32512, 1024, null);
create table rocpd_track (id integer primary key, nid integer, pid integer, tid integer, name_id integer);
insert into rocpd_track values (1, 7, 1, 1, null);
