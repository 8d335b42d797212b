/* Looks for the auxiliary vector behind the end of the environment, as runtimes do that have no getauxval(3): from the arguments on, as Go's, and from the third
 * argument of `main`. Prints the page sizes that it finds and the variables that are the profiler's, and executes itself without arguments. */
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static unsigned long page_behind(char **variables) {
    while (*variables)
        variables++;
    for (Elf64_auxv_t *one = (void *)(variables + 1); one->a_type != AT_NULL; one++)
        if (one->a_type == AT_PAGESZ)
            return one->a_un.a_val;
    return 0;
}

int main(int count, char **arguments, char **variables) {
    unsigned long page = getauxval(AT_PAGESZ);
    int ours = 0, empty = 0;
    for (char **one = variables; *one; one++) {
        ours += strncmp(*one, "RSYS_AGENT_SESSION=", 18 + 1) == 0 || strncmp(*one, "RSYS_AGENT_SETTINGS=", 19 + 1) == 0 || strstr(*one, "librsys_agent") != NULL;
        empty += **one == 0;
    }
    printf("%d %d %d %d\n", page_behind(arguments + count + 1) == page, page_behind(variables) == page, ours, empty);
    fflush(stdout);
    if (count > 1)
        execl(arguments[0], arguments[0], (char *)NULL);
    return 0;
}
