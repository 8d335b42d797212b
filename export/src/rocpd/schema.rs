//! Tables and views of rocprofiler-sdk's databases, schema version 3.0.3 (its `share/rocprofiler-sdk-rocpd`).

/// Tables: name, and columns between `id`, `guid` and `extdata`, which nearly all have. `@name` is a row of another table.
const TABLES: [(&str, &str); 20] = [
    ("string", "string text not null unique"),
    (
        "info_node",
        "hash bigint not null unique, machine_id text not null unique, system_name text, hostname text, release text, version text,
         hardware_name text, domain_name text",
    ),
    (
        "info_process",
        "nid integer not null @info_node, ppid integer, pid integer not null, init bigint, fini bigint, start bigint, end bigint, command text,
         environment jsonb default '{}' not null",
    ),
    (
        "info_thread",
        "nid integer not null @info_node, ppid integer, pid integer not null @info_process, tid integer not null, name text, start bigint,
         end bigint",
    ),
    (
        "info_agent",
        "nid integer not null @info_node, pid integer not null @info_process, type text check (type in ('CPU', 'GPU', 'NIC')),
         absolute_index integer, logical_index integer, type_index integer, uuid integer, name text, model_name text, vendor_name text,
         product_name text, user_name text",
    ),
    (
        "info_queue",
        "nid integer not null @info_node, pid integer not null @info_process, name text",
    ),
    (
        "info_stream",
        "nid integer not null @info_node, pid integer not null @info_process, name text",
    ),
    (
        "info_pmc",
        "nid integer not null @info_node, pid integer not null @info_process, agent_id integer @info_agent,
         target_arch text check (target_arch in ('CPU', 'GPU', 'NIC')), event_code int, instance_id integer, name text not null,
         symbol text not null, description text, long_description text default '', component text, units text default '',
         value_type text check (value_type in ('ABS', 'ACCUM', 'RELATIVE')), block text, expression text, is_constant integer,
         is_derived integer, spm_support integer",
    ),
    (
        "info_code_object",
        "nid integer not null @info_node, pid integer not null @info_process, agent_id integer @info_agent, uri text, load_base bigint,
         load_size bigint, load_delta bigint, storage_type text check (storage_type in ('FILE', 'MEMORY'))",
    ),
    (
        "info_kernel_symbol",
        "nid integer not null @info_node, pid integer not null @info_process, code_object_id integer not null @info_code_object,
         kernel_name text, display_name text, kernel_object integer, kernarg_segment_size integer, kernarg_segment_alignment integer,
         group_segment_size integer, private_segment_size integer, sgpr_count integer, arch_vgpr_count integer, accum_vgpr_count integer",
    ),
    (
        "track",
        "nid integer not null @info_node, pid integer @info_process, tid integer @info_thread, name_id integer @string",
    ),
    (
        "event",
        "category_id integer @string, stack_id integer, parent_stack_id integer, correlation_id integer, call_stack jsonb default '{}' not null,
         line_info jsonb default '{}' not null",
    ),
    (
        "arg",
        "event_id integer not null @event, position integer not null, type text not null, name text not null, value text",
    ),
    (
        "pmc_event",
        "event_id integer @event, pmc_id integer not null @info_pmc, value real default 0.0, sample_id integer @sample, xcc integer,
         shader_engine integer, instance integer",
    ),
    (
        "region",
        "nid integer not null @info_node, pid integer not null @info_process, tid integer not null @info_thread, start bigint not null,
         end bigint not null, name_id integer not null @string, event_id integer @event",
    ),
    (
        "sample",
        "track_id integer not null @track, timestamp bigint not null, event_id integer @event",
    ),
    (
        "kernel_dispatch",
        "nid integer not null @info_node, pid integer not null @info_process, tid integer @info_thread, agent_id integer not null @info_agent,
         kernel_id integer not null @info_kernel_symbol, dispatch_id integer not null, queue_id integer not null @info_queue,
         stream_id integer not null @info_stream, start bigint not null, end bigint not null, private_segment_size integer,
         group_segment_size integer, workgroup_size_x integer not null, workgroup_size_y integer not null, workgroup_size_z integer not null,
         grid_size_x integer not null, grid_size_y integer not null, grid_size_z integer not null, graph_exec_id integer not null default 0,
         graph_node_id integer not null default 0, region_name_id integer @string, event_id integer @event",
    ),
    (
        "memory_copy",
        "nid integer not null @info_node, pid integer not null @info_process, tid integer @info_thread, start bigint not null,
         end bigint not null, name_id integer not null @string, dst_agent_id integer @info_agent, dst_address integer,
         src_agent_id integer @info_agent, src_address integer, size integer not null, queue_id integer @info_queue,
         stream_id integer @info_stream, graph_exec_id integer not null default 0, graph_node_id integer not null default 0,
         region_name_id integer @string, event_id integer @event",
    ),
    (
        "memory_allocate",
        "nid integer not null @info_node, pid integer not null @info_process, tid integer @info_thread, agent_id integer @info_agent,
         type text check (type in ('ALLOC', 'FREE', 'REALLOC', 'RECLAIM')), level text check (level in ('REAL', 'VIRTUAL', 'SCRATCH')),
         start bigint not null, end bigint not null, address integer, size integer not null, queue_id integer @info_queue,
         stream_id integer @info_stream, event_id integer @event",
    ),
    (
        "graph_launch",
        "nid integer not null @info_node, pid integer not null @info_process, tid integer @info_thread, agent_id integer @info_agent,
         queue_id integer @info_queue, start bigint not null, end bigint not null, graph_exec_id integer not null,
         kernel_dispatch_count integer not null default 0, event_id integer @event",
    ),
];

/// Views that join what is asked for most. `@C` is the category of the event `e`.
const VIEWS: &str = "
create view processes as select n.id as nid, machine_id, system_name, hostname, release as system_release, version as system_version,
    p.guid, ppid, p.pid, init, start, end, fini, command from rocpd_info_process p join rocpd_info_node n on n.id = p.nid;
create view threads as select n.id as nid, machine_id, system_name, hostname, release as system_release, version as system_version,
    p.guid, p.ppid, p.pid, t.tid, t.start, t.end, t.name
    from rocpd_info_thread t join rocpd_info_process p on p.id = t.pid join rocpd_info_node n on n.id = t.nid;
create view code_objects as select c.id, c.guid, c.nid, p.pid, a.absolute_index as agent_abs_index, uri, load_base, load_size, load_delta,
    storage_type as storage_type_str, json_extract(c.extdata, '$.size') as code_object_size,
    json_extract(c.extdata, '$.storage_type') as storage_type, json_extract(c.extdata, '$.memory_base') as memory_base,
    json_extract(c.extdata, '$.memory_size') as memory_size
    from rocpd_info_code_object c join rocpd_info_agent a on a.id = c.agent_id join rocpd_info_process p on p.id = c.pid;
create view kernel_symbols as select k.id, k.guid, k.nid, p.pid, code_object_id, kernel_name, display_name, kernel_object, kernarg_segment_size,
    kernarg_segment_alignment, group_segment_size, private_segment_size, sgpr_count, arch_vgpr_count, accum_vgpr_count,
    json_extract(k.extdata, '$.size') as kernel_symbol_size, json_extract(k.extdata, '$.kernel_id') as kernel_id,
    json_extract(k.extdata, '$.kernel_code_entry_byte_offset') as kernel_code_entry_byte_offset,
    json_extract(k.extdata, '$.formatted_kernel_name') as formatted_kernel_name,
    json_extract(k.extdata, '$.demangled_kernel_name') as demangled_kernel_name,
    json_extract(k.extdata, '$.truncated_kernel_name') as truncated_kernel_name,
    json_extract(k.extdata, '$.kernel_address.handle') as kernel_address
    from rocpd_info_kernel_symbol k join rocpd_info_process p on p.id = k.pid;
create view regions as select r.id, r.guid, @C as category, s.string as name, r.nid, p.pid, t.tid, r.start, r.end, r.end - r.start as duration,
    r.event_id, e.stack_id, e.parent_stack_id, e.correlation_id as corr_id, e.extdata, e.call_stack, e.line_info
    from rocpd_region r join rocpd_event e on e.id = r.event_id join rocpd_string s on s.id = r.name_id
    join rocpd_info_process p on p.id = r.pid join rocpd_info_thread t on t.id = r.tid;
create view region_args as select r.id, r.guid, r.nid, p.pid, a.type, a.name, a.value from rocpd_region r join rocpd_event e on e.id = r.event_id
    join rocpd_arg a on a.event_id = e.id join rocpd_info_process p on p.id = r.pid;
create view samples as select r.id, r.guid, @C as category, (select string from rocpd_string where id = k.name_id) as name, k.nid, p.pid, t.tid,
    r.timestamp, r.event_id, e.stack_id, e.parent_stack_id, e.correlation_id as corr_id, e.extdata, e.call_stack, e.line_info
    from rocpd_sample r join rocpd_track k on k.id = r.track_id join rocpd_event e on e.id = r.event_id
    join rocpd_info_process p on p.id = k.pid join rocpd_info_thread t on t.id = k.tid;
create view sample_regions as select id, guid, category, name, nid, pid, tid, timestamp as start, timestamp as end, 0 as duration, event_id,
    stack_id, parent_stack_id, corr_id, extdata, call_stack, line_info from samples;
create view regions_and_samples as select * from regions union all select * from sample_regions;
create view kernels as select k.id, k.guid, t.tid, @C as category, r.string as region, s.display_name as name, k.nid, p.pid,
    a.absolute_index as agent_abs_index, a.logical_index as agent_log_index, a.type_index as agent_type_index, a.type as agent_type,
    s.code_object_id, k.kernel_id, k.dispatch_id, k.stream_id, k.queue_id, q.name as queue, st.name as stream, k.start, k.end,
    k.end - k.start as duration, k.grid_size_x as grid_x, k.grid_size_y as grid_y, k.grid_size_z as grid_z, k.workgroup_size_x as workgroup_x,
    k.workgroup_size_y as workgroup_y, k.workgroup_size_z as workgroup_z, k.group_segment_size as lds_size,
    k.private_segment_size as scratch_size, s.arch_vgpr_count as vgpr_count, s.accum_vgpr_count, s.sgpr_count,
    s.group_segment_size as static_lds_size, s.private_segment_size as static_scratch_size, k.graph_exec_id, k.graph_node_id, e.stack_id,
    e.parent_stack_id, e.correlation_id as corr_id
    from rocpd_kernel_dispatch k join rocpd_info_agent a on a.id = k.agent_id join rocpd_event e on e.id = k.event_id
    left join rocpd_string r on r.id = k.region_name_id join rocpd_info_kernel_symbol s on s.id = k.kernel_id
    left join rocpd_info_stream st on st.id = k.stream_id left join rocpd_info_queue q on q.id = k.queue_id
    join rocpd_info_process p on p.id = k.pid left join rocpd_info_thread t on t.id = k.tid;
create view pmc_info as select i.id, i.guid, i.nid, p.pid, a.absolute_index as agent_abs_index, i.is_constant, i.is_derived, i.name, i.description,
    i.block, i.expression from rocpd_info_pmc i join rocpd_info_agent a on a.id = i.agent_id join rocpd_info_process p on p.id = i.pid;
create view pmc_events as select v.id, v.guid, v.pmc_id, e.id as event_id, @C as category, s.display_name as name, k.nid, p.pid, k.dispatch_id,
    k.start, k.end, k.end - k.start as duration, i.name as counter_name, v.value as counter_value
    from rocpd_pmc_event v join rocpd_info_pmc i on i.id = v.pmc_id join rocpd_event e on e.id = v.event_id
    join rocpd_kernel_dispatch k on k.event_id = v.event_id join rocpd_info_kernel_symbol s on s.id = k.kernel_id
    join rocpd_info_process p on p.id = k.pid;
create view events_args as select e.id as event_id, @C as category, e.stack_id, e.parent_stack_id, e.correlation_id, a.position as arg_position,
    a.type as arg_type, a.name as arg_name, a.value as arg_value, e.call_stack, e.line_info, a.extdata
    from rocpd_event e join rocpd_arg a on a.event_id = e.id;
create view stream_args as select a.id as argument_id, a.event_id, a.position as arg_position, a.type as arg_type, a.value as arg_value,
    json_extract(a.extdata, '$.stream_id') as stream_id, s.nid, p.pid, s.name as stream_name, s.extdata
    from rocpd_arg a join rocpd_info_stream s on s.id = json_extract(a.extdata, '$.stream_id') join rocpd_info_process p on p.id = s.pid
    where a.name = 'stream';
create view memory_copies as select m.id, m.guid, @C as category, m.nid, p.pid, t.tid, m.start, m.end, m.end - m.start as duration,
    s.string as name, r.string as region_name, m.stream_id, m.queue_id, st.name as stream_name, q.name as queue_name, m.size,
    d.name as dst_device, d.absolute_index as dst_agent_abs_index, d.logical_index as dst_agent_log_index,
    d.type_index as dst_agent_type_index, d.type as dst_agent_type, m.dst_address, f.name as src_device,
    f.absolute_index as src_agent_abs_index, f.logical_index as src_agent_log_index, f.type_index as src_agent_type_index,
    f.type as src_agent_type, m.src_address, e.stack_id, e.parent_stack_id, e.correlation_id as corr_id
    from rocpd_memory_copy m join rocpd_string s on s.id = m.name_id left join rocpd_string r on r.id = m.region_name_id
    join rocpd_info_agent d on d.id = m.dst_agent_id join rocpd_info_agent f on f.id = m.src_agent_id
    left join rocpd_info_queue q on q.id = m.queue_id left join rocpd_info_stream st on st.id = m.stream_id
    join rocpd_event e on e.id = m.event_id join rocpd_info_process p on p.id = m.pid left join rocpd_info_thread t on t.id = m.tid;
create view memory_allocations as select m.id, m.guid, @C as category, m.nid, p.pid, t.tid, m.start, m.end, m.end - m.start as duration, m.type,
    m.level, a.name as agent_name, a.absolute_index as agent_abs_index, a.logical_index as agent_log_index,
    a.type_index as agent_type_index, a.type as agent_type, m.address, m.size, m.queue_id, q.name as queue_name, m.stream_id,
    st.name as stream_name, e.stack_id, e.parent_stack_id, e.correlation_id as corr_id
    from rocpd_memory_allocate m left join rocpd_info_agent a on a.id = m.agent_id left join rocpd_info_queue q on q.id = m.queue_id
    left join rocpd_info_stream st on st.id = m.stream_id join rocpd_event e on e.id = m.event_id
    join rocpd_info_process p on p.id = m.pid left join rocpd_info_thread t on t.id = m.tid;
create view scratch_memory as select m.id, m.guid, m.nid, p.pid, m.type as operation, a.name as agent_name, a.absolute_index as agent_abs_index,
    a.logical_index as agent_log_index, a.type_index as agent_type_index, a.type as agent_type, m.queue_id, t.tid,
    json_extract(m.extdata, '$.flags') as alloc_flags, m.start, m.end, m.end - m.start as duration, m.size, m.address, e.correlation_id,
    e.stack_id, e.parent_stack_id, e.correlation_id as corr_id, @C as category, e.extdata as event_extdata
    from rocpd_memory_allocate m left join rocpd_info_agent a on a.id = m.agent_id join rocpd_event e on e.id = m.event_id
    join rocpd_info_process p on p.id = m.pid left join rocpd_info_thread t on t.id = m.tid where m.level = 'SCRATCH' order by m.start;
create view counters_collection as select min(v.id) as id, v.guid, k.dispatch_id, k.kernel_id, e.id as event_id, e.correlation_id, e.stack_id,
    e.parent_stack_id, p.pid, t.tid, k.agent_id, a.absolute_index as agent_abs_index, a.logical_index as agent_log_index,
    a.type_index as agent_type_index, a.type as agent_type, k.queue_id, k.grid_size_x, k.grid_size_y, k.grid_size_z,
    k.grid_size_x * k.grid_size_y * k.grid_size_z as grid_size, s.display_name as kernel_name, r.string as kernel_region,
    k.workgroup_size_x, k.workgroup_size_y, k.workgroup_size_z,
    k.workgroup_size_x * k.workgroup_size_y * k.workgroup_size_z as workgroup_size, k.group_segment_size as lds_block_size,
    k.private_segment_size as scratch_size, s.arch_vgpr_count as vgpr_count, s.accum_vgpr_count, s.sgpr_count, i.name as counter_name,
    i.symbol as counter_symbol, i.component, i.description, i.block, i.expression, i.value_type, i.id as counter_id,
    sum(v.value) as value, k.start, k.end, i.is_constant, i.is_derived, k.end - k.start as duration, @C as category, k.nid, e.extdata,
    s.code_object_id
    from rocpd_pmc_event v join rocpd_info_pmc i on i.id = v.pmc_id join rocpd_event e on e.id = v.event_id
    join rocpd_kernel_dispatch k on k.event_id = v.event_id join rocpd_info_agent a on a.id = k.agent_id
    join rocpd_info_kernel_symbol s on s.id = k.kernel_id join rocpd_info_process p on p.id = k.pid
    left join rocpd_info_thread t on t.id = k.tid left join rocpd_string r on r.id = k.region_name_id
    where v.sample_id is null group by v.guid, k.dispatch_id, i.name, k.agent_id;
";

/// Tables and views of a database that is told from others by `guid`; `suffix` is how its tables end.
pub(super) fn schema(guid: &str, suffix: &str) -> String {
    let mut sql = format!(
        "create table rocpd_metadata{suffix} (id integer not null primary key autoincrement, tag text not null, value text not null);
         create view rocpd_metadata as select * from rocpd_metadata{suffix};"
    );
    for (name, columns) in TABLES {
        let mut words = columns.split('@');
        let mut linked = words.next().unwrap_or_default().to_owned();
        for word in words {
            let end = word.find(',').unwrap_or(word.len());
            let (other, rest) = word.split_at(end);
            linked += &format!("references rocpd_{other}{suffix} (id){rest}");
        }
        let extdata = match name {
            "string" | "info_node" => "",
            _ => ", extdata jsonb default '{}' not null",
        };
        sql += &format!(
            "create table rocpd_{name}{suffix} (id integer not null primary key autoincrement, guid text default '{guid}' not null, {linked}{extdata});
             create view rocpd_{name} as select * from rocpd_{name}{suffix};"
        );
    }
    const CATEGORY: &str = "(select string from rocpd_string where id = e.category_id)";
    sql + &VIEWS.replace("@C", CATEGORY)
}
