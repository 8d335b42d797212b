/* Calls of UCX from a process to itself, each told on standard output as a trace should have it. `ucx_calls N` is the best of 20 parts of N
 * rounds of a put and a fence, in nanoseconds for a round, as ns=... Compile with -lucp -lucs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)
/* A call, and what is said of it. */
#define TELL(call, ...) do { printf("told: " __VA_ARGS__); putchar('\n'); call; } while (0)

static ucp_worker_h worker;
static unsigned long progressed;

static void wait_for(ucs_status_ptr_t request) {
    if (request == NULL) {
        return;
    }
    CHECK(!UCS_PTR_IS_ERR(request));
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
        progressed++;
    }
    ucp_request_free(request);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param) {
    (void)header; (void)data; (void)param;
    *(size_t *)arg += header_length + length;
    return UCS_OK;
}

static int is_received;

static void on_received(void *request, ucs_status_t status, ucp_tag_recv_info_t *info) {
    (void)request;
    CHECK(status == UCS_OK && info->length == 128);
    is_received = 1;
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void measure(long rounds, ucp_ep_h ep, void *memory, ucp_rkey_h key) {
    double best = 1e9;
    for (int part = 0; part < 20; part++) {
        double begin = now_ns();
        for (long i = 0; i < rounds; i++) {
            long value = i;
            CHECK(ucp_put_nbi(ep, &value, sizeof value, (uint64_t)memory, key) >= 0);
            CHECK(ucp_worker_fence(worker) == UCS_OK);
        }
        double ns = (now_ns() - begin) / rounds;
        best = ns < best ? ns : best;
    }
    printf("ns=%.1f\n", best);
}

int main(int argc, char **argv) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_AM | UCP_FEATURE_STREAM};
    ucp_context_h context;
    TELL(CHECK(ucp_init(&params, NULL, &context) == UCS_OK), "ucp_init_version");
    ucp_worker_params_t worker_params = {0};
    TELL(CHECK(ucp_worker_create(context, &worker_params, &worker) == UCS_OK), "ucp_worker_create");
    ucp_address_t *address;
    size_t address_length;
    CHECK(ucp_worker_get_address(worker, &address, &address_length) == UCS_OK);
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    ucp_ep_h ep;
    TELL(CHECK(ucp_ep_create(worker, &ep_params, &ep) == UCS_OK), "ucp_ep_create");
    static char memory[1 << 20], local[1 << 20];
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = memory, .length = sizeof memory};
    ucp_mem_h handle;
    TELL(CHECK(ucp_mem_map(context, &map, &handle) == UCS_OK), "ucp_mem_map");
    void *packed;
    size_t packed_length;
    TELL(CHECK(ucp_rkey_pack(context, handle, &packed, &packed_length) == UCS_OK), "ucp_rkey_pack");
    ucp_rkey_h key;
    TELL(CHECK(ucp_ep_rkey_unpack(ep, packed, &key) == UCS_OK), "ucp_ep_rkey_unpack");

    if (argc > 1) {
        measure(atol(argv[1]), ep, memory, key);
        return 0;
    }
    ucp_request_param_t bytes = {0};
    ucp_request_param_t words = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8)};
    ucp_dt_iov_t parts[2] = {{local, 100}, {local + 4096, 28}};
    ucp_request_param_t vector = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_iov()};
    ucs_status_ptr_t received, request;
    for (int i = 0; i < 10; i++) {
        TELL(received = ucp_tag_recv_nbx(worker, memory, 1000, 17, (ucp_tag_t)-1, &bytes), "ucp_tag_recv_nbx tag=17 bytes=1000");
        TELL(request = ucp_tag_send_nbx(ep, local, 125, 17, &words), "ucp_tag_send_nbx tag=17 bytes=1000");
        wait_for(request);
        wait_for(received);
    }
    TELL(received = ucp_tag_recv_nb(worker, memory, 500, ucp_dt_make_contig(2), 18, (ucp_tag_t)-1, on_received), "ucp_tag_recv_nb tag=18 bytes=1000");
    TELL(request = ucp_tag_send_nbx(ep, parts, 2, 18, &vector), "ucp_tag_send_nbx tag=18 bytes=128");
    wait_for(request);
    while (!is_received) {
        ucp_worker_progress(worker);
        progressed++;
    }
    CHECK(!UCS_PTR_IS_ERR(received));
    ucp_request_free(received);
    TELL(request = ucp_put_nbx(ep, local, 70000, (uint64_t)memory, key, &bytes), "ucp_put_nbx bytes=70000");
    wait_for(request);
    TELL(request = ucp_get_nbx(ep, local, 1000, (uint64_t)memory, key, &words), "ucp_get_nbx bytes=8000");
    wait_for(request);
    TELL(ucp_put_nbi(ep, local, 64, (uint64_t)memory, key), "ucp_put_nbi bytes=64");
    uint64_t one = 1, before = 0;
    ucp_request_param_t atomic = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER, .datatype = ucp_dt_make_contig(8), .reply_buffer = &before};
    TELL(request = ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, (uint64_t)memory, key, &atomic), "ucp_atomic_op_nbx bytes=8");
    wait_for(request);
    size_t seen = 0;
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG, .id = 3, .cb = on_message, .arg = &seen};
    CHECK(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK);
    TELL(request = ucp_am_send_nbx(ep, 3, "header", 6, local, 94, &bytes), "ucp_am_send_nbx bytes=100");
    wait_for(request);
    while (seen < 100) {
        ucp_worker_progress(worker);
        progressed++;
    }
    TELL(request = ucp_stream_send_nbx(ep, local, 33, &bytes), "ucp_stream_send_nbx bytes=33");
    wait_for(request);
    size_t length = 0;
    ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    TELL(request = ucp_stream_recv_nbx(ep, memory, 33, &length, &all), "ucp_stream_recv_nbx bytes=33");
    wait_for(request);
    TELL(request = ucp_ep_flush_nbx(ep, &bytes), "ucp_ep_flush_nbx");
    wait_for(request);
    TELL(CHECK(ucp_worker_fence(worker) == UCS_OK), "ucp_worker_fence");
    TELL(request = ucp_worker_flush_nbx(worker, &bytes), "ucp_worker_flush_nbx");
    wait_for(request);
    TELL(ucp_rkey_destroy(key), "ucp_rkey_destroy");
    ucp_rkey_buffer_release(packed);
    TELL(CHECK(ucp_mem_unmap(context, handle) == UCS_OK), "ucp_mem_unmap");
    TELL(request = ucp_ep_close_nbx(ep, &bytes), "ucp_ep_close_nbx");
    wait_for(request);
    for (int i = 0; i < 1000; i++) {
        ucp_worker_progress(worker);
        progressed++;
    }
    ucp_worker_release_address(worker, address);
    TELL(ucp_worker_destroy(worker), "ucp_worker_destroy");
    TELL(ucp_cleanup(context), "ucp_cleanup");
    printf("progressed=%lu\n", progressed);
    return 0;
}
