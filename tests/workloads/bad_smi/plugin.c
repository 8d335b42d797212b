/* An SMI library that does what BAD_SMI says: `load` (abort when loaded), `init` (crash in rsmi_init), `hang` (there, for ever), `later`
 * (the load is told three times, then there is a crash); it prints much, whatever it does. Right before that it makes the file BAD_SMI_MARK. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *mode) {
    const char *wanted = getenv("BAD_SMI");
    for (int i = 0; i < 1000; i++) {
        puts("bad_smi on standard output");
        fputs("bad_smi on standard error\n", stderr);
    }
    fflush(stdout);
    return wanted && strcmp(wanted, mode) == 0;
}

/* Tells that it is about to do it. */
static int marked(void) {
    const char *file = getenv("BAD_SMI_MARK");
    if (file) close(open(file, O_CREAT | O_WRONLY, 0600));
    return 1;
}

__attribute__((constructor)) static void loaded(void) {
    if (is("load") && marked()) abort();
}

int rsmi_init(uint64_t flags) {
    (void)flags;
    if (is("init") && marked()) *(volatile int *)8 = 0;
    while (is("hang") && marked()) pause();
    return 0;
}

int rsmi_num_monitor_devices(uint32_t *count) {
    *count = 1;
    return 0;
}

int rsmi_dev_pci_id_get(uint32_t device, uint64_t *id) {
    (void)device;
    *id = 0x1000;
    return 0;
}

int rsmi_dev_gpu_metrics_info_get(uint32_t device, uint16_t *metrics) {
    static int times;
    (void)device;
    if (++times > 3 && marked()) abort();
    metrics[10] = 34;
    return 0;
}
