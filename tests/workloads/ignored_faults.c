/* Ignores SIGSEGV and SIGBUS, and starts programs while threads run code that nothing describes, on the last words before a page that cannot be read:
 * ignored_faults THREADS STARTS. Prints `ok`. */
#include "work.h"
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;
int is_over;
void astray(char *end);

__asm__(".text\n"
        "astray:\n"
        "push %rbp\n"
        "push %rbx\n"
        "mov %rsp, %rbx\n"
        "lea -32(%rdi), %rsp\n"
        "mov $64, %ebp\n"
        "1: pause\n"
        "cmpl $0, is_over(%rip)\n"
        "je 1b\n"
        "mov %rbx, %rsp\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n");

static void *thread(void *unused) {
    (void)unused;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    astray(pages + 4096);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    int count = argc > 1 ? atoi(argv[1]) : 2, starts = argc > 2 ? atoi(argv[2]) : 100;
    char *arguments[] = {"true", NULL}, *missing[] = {"missing", NULL};
    CHECK(count <= 8 && signal(SIGSEGV, SIG_IGN) == SIG_DFL && signal(SIGBUS, SIG_IGN) == SIG_DFL);
    for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, thread, NULL) == 0);
    burn(0.05);
    for (int i = 0; i < starts; i++) {
        pid_t child;
        int status;
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(execv("/bin/sh/missing", missing) == -1);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    puts("ok");
    return 0;
}
