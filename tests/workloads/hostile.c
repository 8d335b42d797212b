/* Programs that take away what a profiler may lean on: hostile MODE [FILE]. Burns CPU time before and after, in the main
 * thread and (where threads are allowed) in a new one, and prints `ok MODE`; in mode `daemon` into FILE. */
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define BEFORE 0.05
#define AFTER 0.25

static void *worker(void *unused) {
    (void)unused;
    burn(AFTER / 2);
    return NULL;
}

static void threads_afterwards(void) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, worker, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
}

static void limit(int resource, rlim_t value) {
    struct rlimit limit = {value, value};
    CHECK(setrlimit(resource, &limit) == 0);
}

/* Everything but computing, reading, writing and ending kills. */
static void lock_in(void) {
    static const int allowed[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_futex, SYS_clock_gettime, SYS_rt_sigreturn};
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter code[COUNT + 3];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(COUNT - i), 0);
    code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {COUNT + 3, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int is_seccomp = 0, out = STDOUT_FILENO;
    burn(BEFORE);
    if (strcmp(mode, "closefrom") == 0) closefrom(3);
    else if (strcmp(mode, "close-all") == 0) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        /* The numbers must be ours now: what the program opens next gets 3. */
        CHECK(open("/dev/null", O_RDONLY) == 3);
    } else if (strcmp(mode, "nofile") == 0) limit(RLIMIT_NOFILE, 3);
    else if (strcmp(mode, "fsize") == 0) limit(RLIMIT_FSIZE, 4096);
    else if (strcmp(mode, "as") == 0) limit(RLIMIT_AS, (rlim_t)512 << 20);
    else if (strcmp(mode, "sigpending") == 0) limit(RLIMIT_SIGPENDING, 0);
    else if (strcmp(mode, "memlock") == 0) limit(RLIMIT_MEMLOCK, 0);
    else if (strcmp(mode, "daemon") == 0) {
        CHECK(daemon(0, 0) == 0);
        CHECK(argc > 2);
    } else if (strcmp(mode, "chdir") == 0) {
        char folder[] = "/tmp/rsys-hostile-XXXXXX";
        CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0 && rmdir(folder) == 0);
    } else if (strcmp(mode, "setuid") == 0) {
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    } else if (strcmp(mode, "seccomp") == 0) {
        lock_in();
        is_seccomp = 1;
    } else if (strcmp(mode, "prctl") == 0) {
        CHECK(prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    } else if (strcmp(mode, "blocked") == 0) {
        sigset_t all;
        sigfillset(&all);
        CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    } else if (strcmp(mode, "stdio") == 0) {
        /* Closes what the profiler might want to print to, keeps a copy for itself. */
        CHECK((out = dup2(STDOUT_FILENO, 77)) == 77);
        for (int fd = 0; fd < 3; fd++) close(fd);
    } else if (strcmp(mode, "environment") == 0) {
        CHECK(clearenv() == 0);
    } else {
        fprintf(stderr, "no mode `%s`\n", mode);
        return 2;
    }
    errno = 0;
    burn(AFTER);
    CHECK(errno == 0);
    if (!is_seccomp) threads_afterwards();
    char line[64];
    int length = snprintf(line, sizeof line, "ok %s\n", mode);
    if (strcmp(mode, "daemon") == 0) {
        /* Under another name first: whoever waits for the file finds it complete. */
        char draft[4096];
        snprintf(draft, sizeof draft, "%s.draft", argv[2]);
        CHECK((out = open(draft, O_WRONLY | O_CREAT, 0600)) >= 0);
        CHECK(write(out, line, (size_t)length) == length && rename(draft, argv[2]) == 0);
        return 0;
    }
    CHECK(write(out, line, (size_t)length) == length);
    _exit(0);
}
