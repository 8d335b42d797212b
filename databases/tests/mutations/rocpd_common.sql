create table rocpd_metadata (id integer primary key, tag text, value text);
create table rocpd_string (id integer primary key, guid text, string text);
create table rocpd_info_node (id integer primary key, hostname text);
create table rocpd_info_process (id integer primary key, nid integer, pid integer);
create table rocpd_info_thread (id integer primary key, nid integer, pid integer, tid integer);
create table rocpd_info_agent (id integer primary key, nid integer, pid integer, type text, logical_index integer, type_index integer);
create table rocpd_info_kernel_symbol (id integer primary key, kernel_name text, display_name text);
create table rocpd_event (id integer primary key, category_id integer, stack_id integer, parent_stack_id integer, correlation_id integer, extdata text);
insert into rocpd_metadata values (1, 'schema_version', '3'), (2, 'guid', 'x');
insert into rocpd_string values (1, 'g', 'HIP_RUNTIME_API'), (2, 'g', 'MARKER_CORE_API'), (3, 'g', 'hipLaunchKernel'), (4, 'g', 'roctxThreadRangeA'),
    (5, 'g', 'MEMORY_COPY_DEVICE_TO_HOST'), (6, 'g', 'roctxRangePop');
insert into rocpd_info_node values (7, 'n1');
insert into rocpd_info_process values (1, 7, 4711);
insert into rocpd_info_thread values (1, 7, 1, 77);
insert into rocpd_info_agent values (1, 7, 1, 'CPU', 0, 0), (2, 7, 1, 'GPU', 1, 0), (3, 7, 1, 'GPU', 2, 1);
insert into rocpd_info_kernel_symbol values (1, '_Z4gemm', 'gemm(float*)'), (2, 'fill', null);
insert into rocpd_event values (1, 1, 21, 0, 0, '{}'), (2, 2, 22, 0, 0, '{"message": "step 1"}'), (3, 1, 21, 0, 0, 'no JSON'), (4, 1, 23, 0, 0, '{}'),
    (5, 2, 24, 0, 0, '{}');
create table rocpd_sample (id integer primary key, track_id integer, timestamp bigint, event_id integer, extdata text);
create table rocpd_pmc_event (id integer primary key, event_id integer, pmc_id integer, value real, sample_id integer);
create table rocpd_info_pmc (id integer primary key, nid integer, pid integer, agent_id integer, name text, units text, block text);
alter table rocpd_event add column call_stack text;
insert into rocpd_string values (7, 'g', 'CPU_SAMPLE'), (8, 'g', 'COUNTER');
insert into rocpd_event values (6, 7, 0, 0, 0, '{}', '[{"function":"work","source":"a.c","line":7},{"function":"main","module":"a"}]'), (7, 8, 0, 0, 0, '{}', '{}');
insert into rocpd_sample values (1, 1, 95, 6, '{"weight":1000}'), (2, 1, 96, 7, null);
insert into rocpd_info_pmc values (1, 7, 1, 3, 'power', 'W', 'Sensors of GPU 1');
insert into rocpd_pmc_event values (1, 7, 1, 300.5, null);
