/* Computes in generated code that uses the frame pointer as an ordinary register, which points to pages whose faults the program serves itself (userfaultfd).
 * The program never touches them, and the thread that computes is the one that would serve them. Prints `faults: N`. Exit code 77 where that is not allowed. */
#include "work.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256 };

int main(void) {
    int served = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (served < 0) return 77;
    CHECK(ioctl(served, UFFDIO_API, &(struct uffdio_api){.api = UFFD_API}) == 0);
    char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {{(unsigned long)pages, PAGES * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    CHECK(ioctl(served, UFFDIO_REGISTER, &range) == 0);
    // push rbp; mov rbp, rdi; again: dec rsi; jnz again; pop rbp; ret
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xfd, 0x48, 0xff, 0xce, 0x75, 0xfb, 0x5d, 0xc3};
    void *room = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*compute)(char *, long) = memcpy(room, code, sizeof code);
    for (int i = 0; i < 20; i++) compute(pages + i * 4 * PAGE + 256, 20000000);
    printf("faults: %d\n", poll(&(struct pollfd){served, POLLIN, 0}, 1, 0));
    return 0;
}
