create table rocpd_metadata (id integer primary key, tag text, value text);
create table rocpd_string (id integer primary key, string text);
create table rocpd_api (id integer primary key, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer);
create table rocpd_op (id integer primary key, gpuId integer, queueId integer, sequenceId integer, completionSignal text, start integer, end integer, description_id integer, opType_id integer);
create table rocpd_api_ops (id integer primary key, api_id integer, op_id integer);
insert into rocpd_string values (1, ''), (2, 'hipLaunchKernel'), (3, 'gemm'), (4, 'KernelExecution'), (6, 'UserMarker'), (7, 'step 1');
insert into rocpd_api values (1, 4711, 77, 90, 95, 2, 1);
insert into rocpd_op values (1, 1, 2, 0, 'grid=64,2,1', 100, 250, 3, 4), (2, -1, 0, 0, '', 80, 400, 7, 6);
insert into rocpd_api_ops values (1, 1, 1);
