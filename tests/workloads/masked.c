/* Blocks the signals that the profiler uses for itself, and prints what it sees, to be compared with what it sees without the profiler.
 *
 * masked wait          sends each to itself in several ways while it is blocked, and takes it in several ways
 * masked threads       the same, with a thread that takes all signals by waiting for them
 * masked masks         the masks in handlers, behind them, and behind jumps
 * masked fault NUMBER  blocks a signal, with a handler for it, and does what brings it about
 * masked exec HOW      executes `masked print` with the signals blocked: by fork, vfork, second (a child of a child)
 * masked killed FILE   kills its parent, the profiler, works on, and goes on as `masked exec fork`, with its output in the file
 * masked starts        ignores the signals, and starts `masked ignored HOW` in three ways, which prints what it ignores
 * masked born          sends each while a thread is born that takes it
 * masked let_in NUMBER blocks a signal, sends it to itself, and waits with a mask that lets it through
 * masked storm         sends signals of faults to a thread with a deep stack, whose handler looks at the masks
 * masked print         prints the mask */
#include "work.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static const int ours[] = {SIGTRAP, SIGBUS, SIGSEGV, SIGSTKFLT};
#define EACH(signal) for (const int *at = ours, *end = at + 4; at < end; at++) for (int signal = *at, once = 1; once; once = 0)

static char *self;
static volatile int calls, code, in_mask;
static sigjmp_buf jump_buffer;
static ucontext_t saved_context, link_context;

static void print_mask(const char *where) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("%s:", where);
    for (int i = 1; i < 32; i++)
        if (sigismember(&mask, i) == 1 && (i == SIGUSR1 || i == SIGUSR2 || i == SIGTRAP || i == SIGBUS || i == SIGSEGV || i == SIGSTKFLT)) printf(" %d", i);
    puts("");
}

static void count(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    calls++;
    code = info->si_code;
}

static void handle(int signal, void (*function)(int, siginfo_t *, void *), int flags, const sigset_t *mask) {
    struct sigaction action = {.sa_sigaction = function, .sa_flags = SA_SIGINFO | flags};
    if (mask) action.sa_mask = *mask;
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static sigset_t set_of(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void *send_from_thread(void *signal) {
    burn(0.002);
    CHECK(kill(getpid(), *(int *)signal) == 0);
    return NULL;
}

static void send(int signal, int way) {
    pthread_t thread;
    switch (way) {
    case 0: raise(signal); break;
    case 1: kill(getpid(), signal); break;
    case 2: sigqueue(getpid(), signal, (union sigval){.sival_int = 4711}); break;
    case 3: pthread_kill(pthread_self(), signal); break;
    default:
        CHECK(pthread_create(&thread, NULL, send_from_thread, &signal) == 0);
        pthread_join(thread, NULL);
    }
}

static void take(int signal, int way) {
    sigset_t set = set_of(signal);
    siginfo_t info = {0};
    struct timespec second = {1, 0};
    struct signalfd_siginfo read_info = {0};
    int got = 0, fd;
    switch (way) {
    case 0: CHECK(sigwait(&set, &got) == 0); printf(" sigwait %d", got); break;
    case 1: got = sigwaitinfo(&set, &info); break;
    case 2: got = sigtimedwait(&set, &info, &second); break;
    case 3: sigfillset(&set); got = sigtimedwait(&set, &info, &second); break;
    case 4: sigemptyset(&set); sigsuspend(&set); printf(" suspended %d", errno); break;
    case 5: pthread_sigmask(SIG_UNBLOCK, &set, NULL); break;
    case 6: syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8); break;
    default:
        /* Samples would be read from it. */
        if (signal == SIGSTKFLT) { sigwaitinfo(&set, &info); break; }
        CHECK((fd = signalfd(-1, &set, SFD_NONBLOCK)) >= 0);
        CHECK(read(fd, &read_info, sizeof read_info) == sizeof read_info);
        printf(" read %u code %d value %d mine %d", read_info.ssi_signo, read_info.ssi_code, read_info.ssi_code == SI_QUEUE ? read_info.ssi_int : 0, read_info.ssi_pid == (unsigned)getpid());
        close(fd);
    }
    if (info.si_signo)
        printf(" got %d code %d value %d mine %d", got, info.si_code, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0, info.si_pid == getpid());
}

static int is_pending(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

static void waits(int all) {
    EACH(signal) {
        handle(signal, count, 0, NULL);
        for (int by = 0; by < 5; by++)
            for (int way = 0; way < 8; way++) {
                sigset_t blocked = set_of(signal), before;
                if (all) sigfillset(&blocked);
                pthread_sigmask(SIG_BLOCK, &blocked, &before);
                calls = 0;
                burn(0.002);
                send(signal, by);
                burn(0.004);
                printf("%d sent %d: calls %d pending %d", signal, by, calls, is_pending(signal));
                take(signal, way);
                burn(0.002);
                printf(" calls %d pending %d", calls, is_pending(signal));
                pthread_sigmask(SIG_SETMASK, &before, NULL);
                printf(" calls %d\n", calls);
                calls = 0;
                raise(signal);
                CHECK(calls == 1);
            }
    }
}

static void *taker(void *nothing) {
    (void)nothing;
    sigset_t set;
    sigfillset(&set);
    for (int i = 0; i < 40; i++) {
        int got = 0;
        CHECK(sigwait(&set, &got) == 0);
        printf("took %d\n", got);
        if (got == SIGUSR1) break;
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static volatile int stop;
static void *worker(void *nothing) {
    while (!stop) burn(0.002);
    return nothing;
}

static void threads(void) {
    pthread_t thread[3];
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    CHECK(pthread_create(&thread[0], NULL, taker, NULL) == 0);
    for (int i = 1; i < 3; i++) CHECK(pthread_create(&thread[i], NULL, worker, NULL) == 0);
    for (int round = 0; round < 3; round++)
        EACH(signal) {
            int before = calls;
            burn(0.002);
            kill(getpid(), signal);
            for (double end = clock_seconds(CLOCK_MONOTONIC) + 5; calls == before && clock_seconds(CLOCK_MONOTONIC) < end;) burn(0.0005);
            CHECK(calls == before + 1);
        }
    stop = 1;
    pthread_kill(thread[0], SIGUSR1);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    print_mask("at last");
}

static void *takes_one(void *nothing) {
    sigset_t all;
    int got = 0;
    sigfillset(&all);
    CHECK(sigwait(&all, &got) == 0);
    printf("took %d\n", got);
    return nothing;
}

/* What is sent while a thread is born waits for whoever takes it. */
static void born(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (int round = 0; round < 20; round++)
        EACH(signal) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, takes_one, NULL) == 0);
            kill(getpid(), signal);
            pthread_join(thread, NULL);
        }
}

/* Handlers. */
static void tells(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    char text[40];
    sprintf(text, "handler of %d", signal);
    print_mask(text);
    burn(0.004);
}

static void blocks_all(int signal, siginfo_t *info, void *context) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    tells(signal, info, context);
}

static void opens_all(int signal, siginfo_t *info, void *context) {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    tells(signal, info, context);
}

static void there_and_back(int signal, siginfo_t *info, void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    tells(signal, info, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    tells(signal, info, context);
}

static void edits(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *interrupted = context;
    for (int i = SIGBUS; i <= SIGSEGV; i += SIGSEGV - SIGBUS) {
        printf("%d in the context: %d\n", i, sigismember(&interrupted->uc_sigmask, i));
        if (sigismember(&interrupted->uc_sigmask, i)) sigdelset(&interrupted->uc_sigmask, i);
        else sigaddset(&interrupted->uc_sigmask, i);
    }
}

static void jumps(int signal, siginfo_t *info, void *context) {
    tells(signal, info, context);
    siglongjmp(jump_buffer, 1);
}

static void in_context(void) {
    print_mask("in a context");
    burn(0.004);
}

static void masks(void) {
    typedef void function(int, siginfo_t *, void *);
    static function *const functions[] = {tells, blocks_all, opens_all, there_and_back, edits, jumps};
    static const int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS};
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    /* They must outlive the jumps. */
    static int outer, n, flags;
    static unsigned i;
    for (outer = 0; outer < 3; outer++)
        for (i = 0; i < sizeof functions / sizeof *functions; i++)
            for (n = 0; n < 3; n++)
                for (flags = 0; flags < 2; flags++) {
                    sigset_t before = outer == 0 ? none : set_of(SIGUSR2);
                    /* Told by the others that are blocked with them. */
                    if (outer == 2) sigaddset(&before, SIGTRAP), sigaddset(&before, SIGSTKFLT), sigaddset(&before, SIGHUP);
                    printf("outer %d function %u of %d flags %d\n", outer, i, numbers[n], flags);
                    pthread_sigmask(SIG_SETMASK, &before, NULL);
                    handle(numbers[n], functions[i], flags ? SA_NODEFER : 0, NULL);
                    if (sigsetjmp(jump_buffer, 1) == 0) raise(numbers[n]);
                    print_mask("behind");
                    burn(0.004);
                }
    puts("jumps");
    for (outer = 0; outer < 2; outer++) {
        sigset_t before = outer ? all : none;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (sigsetjmp(jump_buffer, 1) == 0) {
            pthread_sigmask(SIG_SETMASK, outer ? &none : &all, NULL);
            print_mask("before the jump");
            burn(0.004);
            siglongjmp(jump_buffer, 1);
        }
        print_mask("behind the jump");
        burn(0.004);
        volatile int been = 0;
        CHECK(getcontext(&saved_context) == 0);
        print_mask("in the saved context");
        if (!been++) {
            pthread_sigmask(SIG_SETMASK, outer ? &none : &all, NULL);
            print_mask("before it");
            setcontext(&saved_context);
        }
        static char stack[1 << 17];
        pthread_sigmask(SIG_SETMASK, outer ? &none : &before, NULL);
        CHECK(getcontext(&saved_context) == 0);
        saved_context.uc_stack.ss_sp = stack;
        saved_context.uc_stack.ss_size = sizeof stack;
        saved_context.uc_link = &link_context;
        saved_context.uc_sigmask = outer ? before : all;
        makecontext(&saved_context, in_context, 0);
        CHECK(swapcontext(&link_context, &saved_context) == 0);
        print_mask("behind the context");
    }
    /* One alone: only signals of faults, which are really blocked. */
    sigset_t one = set_of(SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (sigsetjmp(jump_buffer, 1) == 0) {
        pthread_sigmask(SIG_BLOCK, &one, NULL);
        print_mask("one");
        siglongjmp(jump_buffer, 1);
    }
    print_mask("none");
}

static void fault(int signal) {
    sigset_t blocked = set_of(signal);
    handle(signal, count, 0, NULL);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    burn(0.01);
    puts("now");
    fflush(stdout);
    if (signal == SIGTRAP) __asm__ volatile("int3");
    else {
        FILE *file = tmpfile();
        char *page = mmap(NULL, 4096, signal == SIGBUS ? PROT_READ : PROT_NONE, MAP_SHARED, fileno(file), 0);
        for (int i = 0; i < 3 && !calls; i++) (void)*(volatile char *)page;
    }
    puts("alive");
    exit(5);
}

static void becomes(const char *how) {
    char *const arguments[] = {self, "print", NULL};
    extern char **environ;
    int status;
    pid_t pid;
    burn(0.01);
    fflush(stdout);
    pid = strcmp(how, "vfork") == 0 ? vfork() : fork();
    if (pid == 0) {
        if (strcmp(how, "second") == 0 && (pid = fork()) != 0) {
            waitpid(pid, &status, 0);
            _exit(0);
        }
        execve(self, arguments, environ);
        _exit(97);
    }
    waitpid(pid, &status, 0);
}

/* What a program that is executed ignores. */
static void print_ignored(const char *how) {
    printf("%s ignores", how);
    EACH(signal) {
        struct sigaction action;
        CHECK(sigaction(signal, NULL, &action) == 0);
        if (action.sa_handler == SIG_IGN) printf(" %d", signal);
    }
    puts("");
}

static void starts(void) {
    extern char **environ;
    char *arguments[] = {self, "ignored", "spawn", NULL};
    pid_t pid;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    EACH(signal) CHECK(sigaction(signal, &ignore, NULL) == 0);
    burn(0.01);
    CHECK(posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0 && waitpid(pid, NULL, 0) == pid);
    arguments[2] = "vfork";
    if ((pid = vfork()) == 0) execve(self, arguments, environ), _exit(97);
    CHECK(waitpid(pid, NULL, 0) == pid);
    arguments[2] = "fork";
    if ((pid = fork()) == 0) execve(self, arguments, environ), _exit(97);
    CHECK(waitpid(pid, NULL, 0) == pid);
    print_ignored("maker");
}

/* A signal that waits ends the program when the mask of a wait lets it through. */
static void let_in(int signal) {
    sigset_t blocked = set_of(signal), none;
    struct timespec second = {1, 0};
    sigemptyset(&none);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    burn(0.01);
    raise(signal);
    puts("now");
    ppoll(NULL, 0, &second, &none);
    puts("alive");
    exit(5);
}

static volatile int is_over, other_masks;
static sem_t looked;

static void look(int signal, siginfo_t *info, void *context) {
    (void)info;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        if (sigismember(&now, i) != (i == signal) || sigismember(&((ucontext_t *)context)->uc_sigmask, i)) other_masks++;
    calls++;
    sem_post(&looked);
}

static __attribute__((noinline)) int deep(int depth) {
    if (depth > 0) return deep(depth - 1) + 1;
    while (!is_over) burn(0.001);
    return 0;
}

static void *go_deep(void *depth) {
    deep(*(int *)depth);
    return NULL;
}

static void storm(int signal) {
    int depth = 250;
    pthread_t thread;
    is_over = 0;
    handle(signal, look, 0, NULL);
    CHECK(pthread_create(&thread, NULL, go_deep, &depth) == 0);
    for (int i = 0; i < 5000; i++) {
        CHECK(pthread_kill(thread, signal) == 0);
        while (sem_wait(&looked) != 0) continue;
    }
    is_over = 1;
    pthread_join(thread, NULL);
    printf("%d: calls %d with other masks %d\n", signal, calls, other_masks);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    self = argv[0];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(argv[1], "print") == 0) print_mask("executed");
    else if (strcmp(argv[1], "wait") == 0) waits(0), waits(1);
    else if (strcmp(argv[1], "threads") == 0) threads();
    else if (strcmp(argv[1], "born") == 0) born();
    else if (strcmp(argv[1], "masks") == 0) masks();
    else if (strcmp(argv[1], "starts") == 0) starts();
    else if (strcmp(argv[1], "storm") == 0) storm(SIGSEGV), storm(SIGBUS);
    else if (strcmp(argv[1], "ignored") == 0) print_ignored(argv[2]);
    else if (strcmp(argv[1], "let_in") == 0) let_in(atoi(argv[2]));
    else if (strcmp(argv[1], "fault") == 0) fault(atoi(argv[2]));
    else {
        sigset_t all;
        int killed = strcmp(argv[1], "killed") == 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        if (killed) {
            CHECK(freopen(argv[2], "w", stdout) != NULL);
            burn(0.1);
            CHECK(kill(getppid(), SIGKILL) == 0);
            burn(3);
        }
        becomes(killed ? "fork" : argv[2]);
        print_mask("here");
    }
    return 0;
}
