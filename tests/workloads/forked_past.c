/* Makes a process past the C library's fork and works in it; both work in a function of their own.
 *
 * forked_past fork|clone|clone3|cleared|copy|shared|vfork_like|vfork|assembly: by a system call (fork, clone, clone3, the same
 * without the handlers), by clone() with a copy of
 * the memory or with the same memory, by vfork, and by a system call that no library sees. */
#include "work.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static __attribute__((noinline)) void of_the_child(void) { burn(0.3); __asm__ volatile(""); }
static __attribute__((noinline)) void of_the_parent(void) { burn(0.2); __asm__ volatile(""); }

static int start(void *argument) {
    CHECK(argument == &start);
    of_the_child();
    return 7;
}

static int by_clone(int flags) {
    size_t bytes = 1 << 20;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK(clone(start, NULL, flags | SIGCHLD, &start) < 0 && errno == EINVAL);
    return clone(start, stack + bytes - 8, flags | SIGCHLD, &start);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *how = argv[1];
    int pid, status;
    if (strcmp(how, "fork") == 0) pid = syscall(SYS_fork);
    else if (strcmp(how, "clone") == 0) pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    else if (strcmp(how, "clone3") == 0 || strcmp(how, "cleared") == 0) {
        /* CLONE_CLEAR_SIGHAND */
        uint64_t arguments[11] = {how[2] == 'e' ? 1ull << 32 : 0, [4] = SIGCHLD};
        pid = syscall(SYS_clone3, arguments, sizeof arguments);
    } else if (strcmp(how, "copy") == 0) pid = by_clone(CLONE_FILES | CLONE_FS);
    else if (strcmp(how, "shared") == 0) pid = by_clone(CLONE_VM);
    else if (strcmp(how, "vfork_like") == 0) pid = by_clone(CLONE_VM | CLONE_VFORK);
    else if (strcmp(how, "vfork") == 0) pid = vfork();
    else {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_fork) : "rcx", "r11", "memory");
        pid = result;
    }
    CHECK(pid >= 0);
    if (pid == 0) {
        of_the_child();
        _exit(7);
    }
    of_the_parent();
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return 3;
}
