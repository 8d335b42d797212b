/* Executes its arguments where nothing can be opened but what the system brings: landlock PROGRAM ARGUMENTS... Ends with 2 where the kernel has no Landlock. */
#include "work.h"
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv) {
    static const char *const open_to_all[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", "/dev", "/proc"};
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules < 0 || argc < 2) return 2;
    for (size_t i = 0; i < sizeof open_to_all / sizeof *open_to_all; i++) {
        struct landlock_path_beneath_attr rule = {.allowed_access = handled.handled_access_fs};
        rule.parent_fd = open(open_to_all[i], O_PATH | O_CLOEXEC);
        if (rule.parent_fd >= 0) CHECK(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0);
    }
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_landlock_restrict_self, rules, 0) == 0);
    close(rules);
    execvp(argv[1], argv + 1);
    return 3;
}
