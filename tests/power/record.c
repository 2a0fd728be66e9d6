/* Writes down what a process does to the files below one directory, for disk.py.
 *
 * Loaded into the server with LD_PRELOAD, it stands before the C library's functions that change
 * files: it calls them and then appends an event, with the data, to a log. Events of one process are
 * in the order in which they took effect, for a lock is held over both. Only a sync runs without the
 * lock; its event says how many there were when it began, and so what it covers at least.
 *
 *   event = kind u8 . handle u64 . number u64 . bytes of the path u32 . bytes of the data u32
 *           . path . data                                                   little-endian
 *
 * A handle stands for a file or directory from its opening on. The number is an offset, a length, an
 * inode or a count of events; which one depends on the kind (see log_event's callers). The count of
 * events is kept in a small file that all processes share and that the writers of the test look at.
 *
 * PARTITA_POWER_ROOT is the directory, PARTITA_POWER_LOG the log, PARTITA_POWER_COUNT the counters.
 * What does not go through the C library is not seen. Of the server that is one thing, the renaming
 * of a draft by a crate that calls the kernel itself; disk.py finds it out by the inode.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 65536

struct counters {
    _Atomic uint64_t events;
    _Atomic uint64_t handles;
};

static char root[PATH_MAX];
static size_t root_bytes;
static int log_fd = -1;
static struct counters *counters;
static uint64_t handles[FDS_MAX]; /* 0: not one of ours */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        dprintf(2, "record: the C library has no %s\n", name);
        _exit(99);
    }
    return found;
}

static void die(const char *what) {
    dprintf(2, "record: %s: %s\n", what, strerror(errno));
    _exit(99);
}

__attribute__((constructor)) static void begin(void) {
    const char *from = getenv("PARTITA_POWER_ROOT");
    const char *log = getenv("PARTITA_POWER_LOG");
    const char *count = getenv("PARTITA_POWER_COUNT");
    if (!from || !log || !count) return;
    root_bytes = strlen(from);
    if (root_bytes >= sizeof root) die("the root");
    memcpy(root, from, root_bytes + 1);
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (log_fd < 0) die(log);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, count, O_RDWR | O_CLOEXEC);
    if (fd < 0) die(count);
    void *mapped = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) die(count);
    syscall(SYS_close, fd);
    counters = mapped;
}

/* ---- the log ---- */

static void put(char **to, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) *(*to)++ = (char)(number >> (8 * i));
}

static void put_all(const struct iovec *parts, int count) {
    ssize_t wanted = 0;
    for (int i = 0; i < count; i++) wanted += (ssize_t)parts[i].iov_len;
    if (syscall(SYS_writev, log_fd, parts, count) != wanted) die("the log");
}

/* The lock is held. */
static void log_event(char kind, uint64_t handle, uint64_t number, const char *path,
                      const void *data, size_t bytes) {
    char head[25], *at = head;
    size_t path_bytes = path ? strlen(path) : 0;
    put(&at, (unsigned char)kind, 1);
    put(&at, handle, 8);
    put(&at, number, 8);
    put(&at, path_bytes, 4);
    put(&at, bytes, 4);
    struct iovec parts[3] = {
        {head, sizeof head}, {(void *)path, path_bytes}, {(void *)data, bytes}};
    put_all(parts, 3);
    counters->events++;
}

/* ---- names ---- */

/* The whole path of a name; false if it is not below the root. */
static int resolve(int dir, const char *name, char *whole) {
    if (!counters || !name) return 0;
    if (name[0] == '/') {
        if (strlen(name) >= PATH_MAX) return 0;
        strcpy(whole, name);
    } else {
        char link[64], base[PATH_MAX];
        if (dir == AT_FDCWD) {
            strcpy(link, "/proc/self/cwd");
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        }
        ssize_t bytes = readlink(link, base, sizeof base - 1);
        if (bytes < 0) return 0;
        base[bytes] = 0;
        if ((size_t)bytes + 1 + strlen(name) >= PATH_MAX) return 0;
        memcpy(whole, base, (size_t)bytes);
        whole[bytes] = '/';
        strcpy(whole + bytes + 1, name);
    }
    size_t bytes = strlen(whole);
    while (bytes > 1 && whole[bytes - 1] == '/') whole[--bytes] = 0;
    return strncmp(whole, root, root_bytes) == 0 &&
           (whole[root_bytes] == '/' || whole[root_bytes] == 0);
}

static uint64_t handle_of(int fd) {
    return counters && fd >= 0 && fd < FDS_MAX ? handles[fd] : 0;
}

/* O: number = inode; data = "c" if the call may have made the file, "t" if it emptied it. */
static int opened(int fd, const char *path, int flags) {
    struct stat status;
    if (fd < 0) return fd;
    if (fd >= FDS_MAX) die("too many descriptors");
    if (fstat(fd, &status) != 0) die(path);
    char how[2];
    size_t bytes = 0;
    if (flags & O_CREAT) how[bytes++] = 'c';
    if (flags & O_TRUNC) how[bytes++] = 't';
    if (S_ISDIR(status.st_mode)) how[0] = 'd', bytes = 1;
    handles[fd] = ++counters->handles;
    log_event('O', handles[fd], status.st_ino, path, how, bytes);
    return fd;
}

static int open_at(int dir, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    __typeof__(&openat64) call = REAL(openat64);
    if (!resolve(dir, name, path)) {
        int fd = call(dir, name, flags, mode);
        if (counters && fd >= 0 && fd < FDS_MAX) handles[fd] = 0;
        return fd;
    }
    pthread_mutex_lock(&lock);
    int fd = opened(call(dir, name, flags, mode), path, flags), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list list) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(list, int) : 0;
}

#define OPEN_BODY(dir)                            \
    va_list list;                                 \
    va_start(list, flags);                        \
    mode_t mode = mode_of(flags, list);           \
    va_end(list);                                 \
    return open_at(dir, name, flags, mode);

int open(const char *name, int flags, ...) { OPEN_BODY(AT_FDCWD) }
int open64(const char *name, int flags, ...) { OPEN_BODY(AT_FDCWD) }
int openat(int dir, const char *name, int flags, ...) { OPEN_BODY(dir) }
int openat64(int dir, const char *name, int flags, ...) { OPEN_BODY(dir) }

int close(int fd) {
    if (counters && fd >= 0 && fd < FDS_MAX) handles[fd] = 0;
    return REAL(close)(fd);
}

static int fcntl_all(int fd, int command, void *argument) {
    int result = (int)syscall(SYS_fcntl, fd, command, argument);
    int is_copy = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (counters && is_copy && result >= 0 && result < FDS_MAX) handles[result] = handle_of(fd);
    return result;
}

int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_all(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_all(fd, command, argument);
}

/* A change of names: done and logged under the lock. */
#define NAMED(kind, dir, name, second_dir, second, call)                       \
    char path[PATH_MAX], other[PATH_MAX];                                      \
    int is_ours = resolve(dir, name, path);                                    \
    const char *to = second;                                                   \
    if (to && resolve(second_dir, to, other) != is_ours) die("across the root"); \
    if (!is_ours) return call;                                                 \
    pthread_mutex_lock(&lock);                                                 \
    int result = call, error = errno;                                          \
    if (result == 0) log_event(kind, 0, 0, path, other, to ? strlen(other) : 0); \
    pthread_mutex_unlock(&lock);                                               \
    errno = error;                                                             \
    return result;

int mkdir(const char *name, mode_t mode) {
    NAMED('M', AT_FDCWD, name, 0, NULL, REAL(mkdir)(name, mode))
}
int mkdirat(int dir, const char *name, mode_t mode) {
    NAMED('M', dir, name, 0, NULL, REAL(mkdirat)(dir, name, mode))
}
int rmdir(const char *name) { NAMED('D', AT_FDCWD, name, 0, NULL, REAL(rmdir)(name)) }
int unlink(const char *name) { NAMED('U', AT_FDCWD, name, 0, NULL, REAL(unlink)(name)) }
int unlinkat(int dir, const char *name, int flags) {
    char kind = flags & AT_REMOVEDIR ? 'D' : 'U';
    NAMED(kind, dir, name, 0, NULL, REAL(unlinkat)(dir, name, flags))
}
int rename(const char *from, const char *name) {
    NAMED('R', AT_FDCWD, from, AT_FDCWD, name, REAL(rename)(from, name))
}
int renameat(int dir, const char *from, int to_dir, const char *name) {
    NAMED('R', dir, from, to_dir, name, REAL(renameat)(dir, from, to_dir, name))
}
int link(const char *from, const char *name) {
    NAMED('L', AT_FDCWD, from, AT_FDCWD, name, REAL(link)(from, name))
}
int linkat(int dir, const char *from, int to_dir, const char *name, int flags) {
    NAMED('L', dir, from, to_dir, name, REAL(linkat)(dir, from, to_dir, name, flags))
}

/* ---- data ---- */

/* W: number = offset. `offset` is -1 for a write at the descriptor's own place. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off64_t offset) {
    uint64_t handle = handle_of(fd);
    if (!handle) {
        return offset < 0 ? syscall(SYS_writev, fd, parts, count)
                          : syscall(SYS_pwritev, fd, parts, count, offset, 0);
    }
    pthread_mutex_lock(&lock);
    ssize_t written = offset < 0 ? syscall(SYS_writev, fd, parts, count)
                                 : syscall(SYS_pwritev, fd, parts, count, offset, 0);
    int error = errno;
    if (written > 0) {
        if (offset < 0) offset = lseek64(fd, 0, SEEK_CUR) - written;
        ssize_t left = written;
        for (int i = 0; i < count && left > 0; i++) {
            size_t bytes = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
            if (bytes) log_event('W', handle, (uint64_t)offset, NULL, parts[i].iov_base, bytes);
            offset += (off64_t)bytes;
            left -= (ssize_t)bytes;
        }
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    struct iovec part = {(void *)data, bytes};
    return handle_of(fd) ? write_parts(fd, &part, 1, -1) : REAL(write)(fd, data, bytes);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return handle_of(fd) ? write_parts(fd, parts, count, -1) : REAL(writev)(fd, parts, count);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
    struct iovec part = {(void *)data, bytes};
    return write_parts(fd, &part, 1, offset);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    return pwrite64(fd, data, bytes, offset);
}

/* T: number = the new length. */
int ftruncate64(int fd, off64_t bytes) {
    uint64_t handle = handle_of(fd);
    if (!handle) return (int)syscall(SYS_ftruncate, fd, bytes);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_ftruncate, fd, bytes), error = errno;
    if (result == 0) log_event('T', handle, (uint64_t)bytes, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }

/* Nobody uses them on our files; that someone begins to must not go unnoticed. */
#define REFUSED(name, ...) \
    if (handle_of(fd)) die(#name " is not recorded"); \
    return REAL(name)(__VA_ARGS__);

int fallocate64(int fd, int mode, off64_t from, off64_t bytes) {
    REFUSED(fallocate64, fd, mode, from, bytes)
}
int posix_fallocate64(int fd, off64_t from, off64_t bytes) {
    REFUSED(posix_fallocate64, fd, from, bytes)
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return write_parts(fd, parts, count, offset);
}
ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t bytes, unsigned flags) {
    REFUSED(copy_file_range, from, at, fd, to, bytes, flags)
}
/* An allocator may ask for memory before this library has begun, and while it does. */
static void *map(void *at, size_t bytes, int how, int flags, int fd, off64_t offset) {
    if ((flags & MAP_SHARED) && (how & PROT_WRITE) && handle_of(fd)) die("mmap is not recorded");
    return (void *)syscall(SYS_mmap, at, bytes, how, flags, fd, offset);
}
void *mmap(void *at, size_t bytes, int how, int flags, int fd, off_t offset) {
    return map(at, bytes, how, flags, fd, offset);
}
void *mmap64(void *at, size_t bytes, int how, int flags, int fd, off64_t offset) {
    return map(at, bytes, how, flags, fd, offset);
}

/* ---- syncs ---- */

/* S: number = the count of events when it began. A sync of data covers the length, too. */
static int synced(int fd, long call) {
    uint64_t handle = handle_of(fd);
    uint64_t begun = counters ? counters->events : 0;
    int result = (int)syscall(call, fd), error = errno;
    if (handle && result == 0) {
        pthread_mutex_lock(&lock);
        log_event('S', handle, begun, NULL, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int syncfs(int fd) {
    if (counters) die("syncfs is not recorded");
    return (int)syscall(SYS_syncfs, fd);
}
