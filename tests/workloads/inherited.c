/* What a program has from whoever started it by exec, all of it, to be compared with what it has without the profiler.
 *
 * inherited set few|all COMMAND...   changes everything that it can, then becomes the command; with few or all signals blocked
 * inherited relay COMMAND...         becomes the command as it is
 * inherited print                    prints everything, a line each */
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <termios.h>

#define JOIN_SESSION_KEYRING 1
#define DESCRIBE 6
#define SESSION_KEYRING -3
#define IOPRIO_WHO_PROCESS 1

static const int ignored[] = {SIGCHLD, SIGPIPE, SIGUSR1, SIGTRAP, SIGSTKFLT, SIGBUS, SIGWINCH};
static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

/* What needs a right that we may not have is left as it is: the same in both runs. */
static void set(int all) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGRTMIN + 3);
    if (all) sigfillset(&blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    raise(SIGUSR2);
    for (int i = 1; i <= 2; i++) sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 70 + i});
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    if (all) raise(SIGPIPE);
    for (int i = 0; i < 3; i++) {
        struct itimerval timer = {{7 + i, 0}, {1000 * (i + 1), 0}};
        setitimer(timers[i], &timer, NULL);
    }

    struct sched_param priority = {0};
    sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &priority);
    setpriority(PRIO_PROCESS, 0, 3);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 2 << 13 | 6);
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET(0, &processors);
    sched_setaffinity(0, sizeof processors, &processors);
    struct rlimit limit = {500, 600};
    setrlimit(RLIMIT_NOFILE, &limit);
    limit = (struct rlimit){0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    limit = (struct rlimit){16 << 20, 64 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    umask(027);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 17);
    dup3(null, 18, O_CLOEXEC);
    close(null);
    close(0);
    syscall(SYS_keyctl, JOIN_SESSION_KEYRING, "rsys-inherited", 0, 0, 0);
    personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC);

    prctl(PR_SET_PDEATHSIG, SIGWINCH);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_TIMERSLACK, 77777);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    if (syscall(SYS_capget, &header, caps) == 0) {
        caps[0].inheritable |= 1 << CAP_NET_BIND_SERVICE;
        syscall(SYS_capset, &header, caps);
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    if (file) {
        fputs("100", file);
        fclose(file);
    }
}

static void print_file(const char *path, const char *begin) {
    char line[4096];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, begin, strlen(begin)) == 0) printf("%s: %s", path, line);
    if (file) fclose(file);
}

static void print(void) {
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) != 0) continue;
        const char *does = action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "handled";
        printf("signal %d %s%s\n", i, does, sigismember(&mask, i) == 1 ? " blocked" : "");
    }
    siginfo_t info;
    while (sigtimedwait(&mask, &info, &(struct timespec){0, 0}) > 0)
        printf("pending %d code %d value %d %s\n", info.si_signo, info.si_code, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0,
               info.si_uid == getuid() ? "ours" : "foreign");
    for (int i = 0; i < 3; i++) {
        struct itimerval timer;
        getitimer(timers[i], &timer);
        /* A whole run passes meanwhile. */
        printf("timer %d in %ld00 s, every %ld s\n", timers[i], (long)(timer.it_value.tv_sec + 99) / 100, (long)timer.it_interval.tv_sec);
    }

    cpu_set_t processors;
    sched_getaffinity(0, sizeof processors, &processors);
    printf("policy %d nice %d processors %d io %ld\n", sched_getscheduler(0), getpriority(PRIO_PROCESS, 0), CPU_COUNT(&processors),
           syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        printf("limit %d %lld %lld\n", i, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
    mode_t made = umask(0);
    printf("umask %o\n", (unsigned)made);
    for (int fd = 0; fd < 100; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) printf("descriptor %d flags %d status %x\n", fd, flags, (unsigned)fcntl(fd, F_GETFL));
    }
    int terminal = open("/dev/tty", O_RDWR);
    printf("terminal %s, in its foreground %d\n", terminal < 0 ? strerror(errno) : "yes", terminal >= 0 && tcgetpgrp(terminal) == getpgrp());
    if (terminal >= 0) close(terminal);
    char text[300] = "";
    long length = syscall(SYS_keyctl, DESCRIBE, SESSION_KEYRING, text, sizeof text, 0);
    printf("keyring %s\n", length < 0 ? strerror(errno) : text);
    printf("personality %x\n", (unsigned)personality(0xffffffff));

    int death = 0, reaper = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    printf("death signal %d subreaper %d slack %d huge pages off %d dumpable %d keeps capabilities %d securebits %d\n", death, reaper,
           prctl(PR_GET_TIMERSLACK), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS),
           prctl(PR_GET_SECUREBITS));
    for (const char *const *name = (const char *[]){"Cap", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups", NULL}; *name; name++)
        print_file("/proc/self/status", *name);
    print_file("/proc/self/oom_score_adj", "");
    print_file("/proc/self/coredump_filter", "");
    print_file("/proc/self/cgroup", "");
    char *folder = getcwd(NULL, 0);
    printf("folder is %s\n", folder && strstr(folder, "/run") ? "the run's" : "another");
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char **command = argv + (strcmp(argv[1], "set") == 0 ? 3 : 2);
    if (strcmp(argv[1], "print") == 0) {
        print();
        return 3;
    }
    if (strcmp(argv[1], "set") == 0) set(strcmp(argv[2], "all") == 0);
    execv(command[0], command);
    return 99;
}
