/* A tool of Kokkos that counts what it is told, and prints that when Kokkos ends. Compile with -shared -fPIC. Gives kernels odd numbers of its
 * own and wants them back. With KOKKOS_TOOL_FENCES in the environment it asks for fences around kernels. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { char name[64]; } space;
static long kernels, fences, ended, wrong, regions, popped, sections, started, stopped, events, allocated, freed, copies, synced;
static uint64_t next = 1;

static void begin(long *count, uint64_t *id) { ++*count; *id = next += 2; }
static void finish(uint64_t id) { ended++; wrong += id != next; }
void kokkosp_init_library(int sequence, uint64_t version, uint32_t devices, void *infos) {
    (void)sequence, (void)devices, (void)infos;
    printf("tool of the program: version %s\n", version >= 20171029 ? "known" : "odd");
}
void kokkosp_finalize_library(void) {
    printf("tool: kernels=%ld fences=%ld ended=%ld wrong=%ld regions=%ld popped=%ld sections=%ld started=%ld stopped=%ld events=%ld "
           "allocated=%ld freed=%ld copies=%ld synced=%ld\n",
           kernels, fences, ended, wrong, regions, popped, sections, started, stopped, events, allocated, freed, copies, synced);
}
void kokkosp_begin_parallel_for(const char *name, uint32_t device, uint64_t *id) { (void)name, (void)device; begin(&kernels, id); }
void kokkosp_begin_parallel_reduce(const char *name, uint32_t device, uint64_t *id) { (void)name, (void)device; begin(&kernels, id); }
void kokkosp_begin_parallel_scan(const char *name, uint32_t device, uint64_t *id) { (void)name, (void)device; begin(&kernels, id); }
void kokkosp_begin_fence(const char *name, uint32_t device, uint64_t *id) { (void)name, (void)device; begin(&fences, id); }
void kokkosp_end_parallel_for(uint64_t id) { finish(id); }
void kokkosp_end_parallel_reduce(uint64_t id) { finish(id); }
void kokkosp_end_parallel_scan(uint64_t id) { finish(id); }
void kokkosp_end_fence(uint64_t id) { finish(id); }
void kokkosp_push_profile_region(const char *name) { (void)name; regions++; }
void kokkosp_pop_profile_region(void) { popped++; }
void kokkosp_create_profile_section(const char *name, uint32_t *id) { (void)name; sections++; *id = 77; }
void kokkosp_start_profile_section(uint32_t id) { started++; wrong += id != 77; }
void kokkosp_stop_profile_section(uint32_t id) { stopped++; wrong += id != 77; }
void kokkosp_profile_event(const char *name) { (void)name; events++; }
void kokkosp_allocate_data(space where, const char *label, void *address, uint64_t bytes) {
    (void)label, (void)address, (void)bytes;
    allocated++;
    wrong += where.name[0] != 'H';
}
void kokkosp_deallocate_data(space where, const char *label, void *address, uint64_t bytes) {
    (void)where, (void)label, (void)address, (void)bytes;
    freed++;
}
void kokkosp_begin_deep_copy(space to, const char *to_label, void *to_address, space from, const char *from_label, void *from_address,
                             uint64_t bytes) {
    (void)to, (void)to_label, (void)to_address, (void)from, (void)from_label, (void)from_address, (void)bytes;
    copies++;
}
void kokkosp_end_deep_copy(void) {}
void kokkosp_dual_view_sync(const char *label, void *address, unsigned char is_device) {
    (void)label, (void)address, (void)is_device;
    synced++;
}
