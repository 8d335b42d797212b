/* Functions that the floor's C library does not have, or has under other names. Hidden: nothing here is exported. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Before glibc 2.33 the `stat` family was in libc_nonshared.a. On 64-bit machines the kernel's structure is the C library's. */
#define STAT(suffix, type)                                                                                    \
    int stat##suffix(const char *path, struct type *to) { return syscall(SYS_newfstatat, AT_FDCWD, path, to, 0); } \
    int lstat##suffix(const char *path, struct type *to)                                                      \
    {                                                                                                         \
        return syscall(SYS_newfstatat, AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW);                              \
    }                                                                                                         \
    int fstat##suffix(int fd, struct type *to) { return syscall(SYS_fstat, fd, to); }                         \
    int fstatat##suffix(int folder, const char *path, struct type *to, int flags)                             \
    {                                                                                                         \
        return syscall(SYS_newfstatat, folder, path, to, flags);                                              \
    }

STAT(, stat)
STAT(64, stat64)

/* glibc 2.25 and 2.27. */
ssize_t getrandom(void *to, size_t bytes, unsigned flags) { return syscall(SYS_getrandom, to, bytes, flags); }
int memfd_create(const char *name, unsigned flags) { return syscall(SYS_memfd_create, name, flags); }
