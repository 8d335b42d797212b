//! Tables and views of rocmProfileData, schema version 3 (its `rocpd_python/rocpd/schema_data`).

/// Tables and views, under the names that its tools expect, and indexes that are written with their tables.
pub(super) const SCHEMA: &str = "
create table rocpd_metadata (id integer primary key autoincrement, tag varchar(4096) not null, value varchar(4096) not null);
create table rocpd_string (id integer primary key autoincrement, string varchar(4096) not null);
create table rocpd_ustring (id integer primary key autoincrement, string varchar(4096) not null);
create table rocpd_api (id integer primary key autoincrement, pid integer not null, tid integer not null, start integer not null,
    end integer not null, apiName_id integer not null, category_id integer not null, domain_id integer not null, args_id integer not null);
create table rocpd_copyapi (api_ptr_id integer not null primary key, stream varchar(18) not null, size integer not null,
    width integer not null, height integer not null, kind integer not null, dst varchar(18) not null, src varchar(18) not null,
    dstDevice integer not null, srcDevice integer not null, sync bool not null, pinned bool not null);
create table rocpd_kernelapi (api_ptr_id integer not null primary key, stream varchar(18) not null, gridX integer not null,
    gridY integer not null, gridZ integer not null, workgroupX integer not null, workgroupY integer not null, workgroupZ integer not null,
    groupSegmentSize integer not null, privateSegmentSize integer not null, kernelName_id integer not null);
create table rocpd_op (id integer primary key autoincrement, gpuId integer not null, queueId integer not null, sequenceId integer not null,
    start integer not null, end integer not null, description_id integer not null, opType_id integer not null);
create table rocpd_api_ops (id integer primary key autoincrement, api_id integer not null, op_id integer not null);
create table rocpd_monitor (id integer primary key autoincrement, deviceType varchar(16) not null, deviceId integer not null,
    monitorType varchar(16) not null, start integer not null, end integer not null, value varchar(255) not null);
create table rocpd_counter (id integer primary key autoincrement, value real not null, op_id integer not null, name_id integer not null);
create table rocpd_stackframe (id integer primary key autoincrement, api_ptr_id integer not null, depth integer not null, name_id integer not null);
create unique index rocpd_api_ops_pair on rocpd_api_ops (api_id, op_id);
create index rocpd_api_ops_op on rocpd_api_ops (op_id);
create view api as select a.id, pid, tid, start, end, d.string as domain, c.string as category, n.string as apiName, u.string as args
    from rocpd_api a join rocpd_string n on n.id = a.apiName_id join rocpd_string c on c.id = a.category_id
    join rocpd_string d on d.id = a.domain_id join rocpd_ustring u on u.id = a.args_id;
create view op as select o.id, gpuId, queueId, sequenceId, start, end, d.string as description, t.string as opType
    from rocpd_op o join rocpd_string d on d.id = o.description_id join rocpd_string t on t.id = o.opType_id;
create view busy as select gpuId, GpuTime, WallTime, GpuTime * 1.0 / WallTime as Busy
    from (select gpuId, sum(end - start) as GpuTime from rocpd_op group by gpuId)
    join (select max(end) - min(start) as WallTime from rocpd_op);
create view top as select Name, count(*) as TotalCalls, sum(duration) / 1000 as TotalDuration_us, sum(duration) / count(*) / 1000 as Ave_us,
    sum(duration) * 100.0 / (select sum(end - start) from rocpd_op) as Percentage
    from (select case description when '' then opType else description end as Name, end - start as duration from op)
    group by Name order by TotalDuration_us desc;
create view kernel as select o.id, gpuId, queueId, sequenceId, start, end, end - start as duration, stream, gridX, gridY, gridZ,
    workgroupX, workgroupY, workgroupZ, groupSegmentSize, privateSegmentSize, n.string as kernelName
    from rocpd_api_ops l join rocpd_op o on o.id = l.op_id join rocpd_kernelapi k on k.api_ptr_id = l.api_id
    join rocpd_string n on n.id = k.kernelName_id;
create view copy as select a.id, pid, tid, start, end, n.string as apiName, stream, size, width, height, kind, dst, src, dstDevice, srcDevice,
    sync, pinned from rocpd_copyapi c join rocpd_api a on a.id = c.api_ptr_id join rocpd_string n on n.id = a.apiName_id;
create view copyop as select o.id, gpuId, queueId, sequenceId, o.start, o.end, o.end - o.start as duration, stream, size, width, height, kind, dst,
    src, dstDevice, srcDevice, sync, pinned, n.string as apiName
    from rocpd_api_ops l join rocpd_op o on o.id = l.op_id join rocpd_copyapi c on c.api_ptr_id = l.api_id
    join rocpd_api a on a.id = l.api_id join rocpd_string n on n.id = a.apiName_id;
create view stackframe as select a.id, n.string as apiName, depth, f.string as frame
    from rocpd_stackframe s join rocpd_api a on a.id = s.api_ptr_id join rocpd_string n on n.id = a.apiName_id
    join rocpd_string f on f.id = s.name_id;
create view napi as select id, pid / (select value from rocpd_metadata where tag = 'pid_stride') as node,
    pid % (select value from rocpd_metadata where tag = 'pid_stride') as pid, tid, start, end, domain, category, apiName, args from api;
create view nop as select id, gpuId / (select value from rocpd_metadata where tag = 'gpu_stride') as node,
    gpuId % (select value from rocpd_metadata where tag = 'gpu_stride') as gpuId, queueId, sequenceId, start, end, description, opType from op;
";

/// Indexes, made when all rows are there.
pub(super) const INDEXES: &str = "
create index rocpd_string_string on rocpd_string (string);
create index rocpd_ustring_string on rocpd_ustring (string);
";
