/* Programs that forbid themselves one system call each, on pain of death: forbidden MARKS FIRST LAST [WORD...].
 *
 * For each number from FIRST to LAST a child installs a filter that kills whoever makes this system call. Under it the child marks MARKS
 * times by roctx, has a thread and a child, burns, and executes itself; each of them marks as well. A line
 * for each number says how that went: `N ok`, or `N died of S` where the program itself needs the call. WORD `seccomp` installs the filter
 * by the system call of that name. */
#include "work.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

__attribute__((weak)) void roctxMarkA(const char *);

static void mark(long count) {
    for (long i = 0; i < count && roctxMarkA; i++) roctxMarkA("a mark");
}

static long marks;
static int done[2];

static void *thread(void *unused) {
    (void)unused;
    burn(0.001);
    mark(marks / 10);
    CHECK(write(done[1], "", 1) == 1);
    return NULL;
}

static void forbid(unsigned number, int by_seccomp) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_seccomp) CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* What is done under the filter. Nothing in it waits but for a pipe and for children. */
static void live(void) {
    char byte;
    pthread_t id;
    pthread_attr_t detached;
    mark(marks);
    CHECK(pthread_attr_init(&detached) == 0 && pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_create(&id, &detached, thread, NULL) == 0);
    CHECK(read(done[0], &byte, 1) == 1);
    burn(0.001);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        burn(0.001);
        mark(marks / 10);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    /* It died as we would. */
    if (WIFSIGNALED(status)) syscall(SYS_kill, getpid(), SIGKILL);
}

int main(int argc, char **argv) {
    CHECK(argc > 3);
    marks = atol(argv[1]);
    unsigned first = (unsigned)atol(argv[2]), last = (unsigned)atol(argv[3]);
    int by_seccomp = argc > 4 && strcmp(argv[4], "seccomp") == 0;
    if (argc > 4 && strcmp(argv[4], "executed") == 0) {
        burn(0.001);
        mark(marks / 10);
        return 0;
    }
    for (unsigned number = first; number <= last; number++) {
        CHECK(pipe(done) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            forbid(number, by_seccomp);
            live();
            char *words[] = {argv[0], argv[1], argv[2], argv[3], "executed", NULL};
            execv("/proc/self/exe", words);
            _exit(98);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        close(done[0]);
        close(done[1]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) printf("%u ok\n", number);
        else if (WIFSIGNALED(status)) printf("%u died of %d\n", number, WTERMSIG(status));
        else printf("%u ended with %d\n", number, WEXITSTATUS(status));
    }
    return 0;
}
