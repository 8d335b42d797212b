/*
 * Starting a program. Since glibc 2.34 the C library runs the constructors of the program itself; before, the start code that was
 * linked into the program had to. Today's start code leaves it to the library, so an older one would run none.
 * START is the old version of the function, for example __libc_start_main@GLIBC_2.2.5.
 */

typedef int (*Main)(int, char **, char **);
typedef void (*Constructor)(int, char **, char **);

extern Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((visibility("hidden")));

int start_of_library(Main, int, char **, Constructor, void (*)(void), void (*)(void), void *);
__asm__(".symver start_of_library, " START);

static void construct(int count, char **arguments, char **environment)
{
    for (Constructor *next = __init_array_start; next != __init_array_end; next++)
        (*next)(count, arguments, environment);
}

int __libc_start_main(Main main, int count, char **arguments, Constructor init, void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
    return start_of_library(main, count, arguments, init ? init : construct, fini, rtld_fini, stack_end);
}
