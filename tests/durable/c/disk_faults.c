/* Preloaded into a process, makes its disk fail and records what it writes.

   Only files whose path starts with $FAULT_PREFIX are affected. `fault_arm` lets an operation fail
   from its n-th call on, `times` times; with $FAULT_LOG set, every write, sync and truncation is
   appended to that file, so that a test can rebuild what a power failure would have left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITE, SYNC, TRUNCATE, OPEN, OPERATIONS };
#define MAX_FILES 1024

static char *names[MAX_FILES];
static long remaining[OPERATIONS], failures[OPERATIONS], calls[OPERATIONS];
static int error_of[OPERATIONS];
static int log_file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAULT_LOG");
    REAL(int, "open64", const char *, int, ...);
    if (path) log_file = real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void fault_arm(int operation, long nth, int error, long times) {
    pthread_mutex_lock(&lock);
    remaining[operation] = nth;
    error_of[operation] = error;
    failures[operation] = times;
    pthread_mutex_unlock(&lock);
}

long fault_calls(int operation) { return calls[operation]; }

static int fails(int operation) {
    int failed = 0;
    pthread_mutex_lock(&lock);
    calls[operation]++;
    if (failures[operation] > 0 && (remaining[operation] <= 1 || --remaining[operation] == 0)) {
        failures[operation]--;
        failed = 1;
    }
    pthread_mutex_unlock(&lock);
    if (failed) errno = error_of[operation];
    return failed;
}

static void record(char kind, const char *name, int64_t offset, const void *data, int64_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (log_file < 0) return;
    int64_t length = (int64_t)strlen(name);
    size_t total = 25 + (size_t)length + (data ? (size_t)size : 0);
    char *buffer = malloc(total);
    buffer[0] = kind;
    memcpy(buffer + 1, &length, 8);
    memcpy(buffer + 9, &offset, 8);
    memcpy(buffer + 17, &size, 8);
    memcpy(buffer + 25, name, (size_t)length);
    if (data) memcpy(buffer + 25 + length, data, (size_t)size);
    if (real(log_file, buffer, total) != (ssize_t)total) abort();
    free(buffer);
}

/* What the process knows to be durable, in the order of the writes. */
void fault_note(int64_t value) { record('N', "", value, NULL, 0); }

static const char *name_of(int fd) { return fd >= 0 && fd < MAX_FILES ? names[fd] : NULL; }

static int opened(int fd, const char *path) {
    const char *prefix = getenv("FAULT_PREFIX");
    if (fd < 0 || fd >= MAX_FILES) return fd;
    free(names[fd]);
    int is_ours = prefix && strncmp(path, prefix, strlen(prefix)) == 0;
    names[fd] = is_ours ? strdup(path) : NULL;
    return fd;
}

static int is_ours(const char *path) {
    const char *prefix = getenv("FAULT_PREFIX");
    return prefix && strncmp(path, prefix, strlen(prefix)) == 0;
}

#define OPENED(symbol) \
    int symbol(const char *path, int flags, ...) { \
        REAL(int, #symbol, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments); \
        if (is_ours(path) && fails(OPEN)) return -1; \
        return opened(real(path, flags, mode), path); \
    }
OPENED(open)
OPENED(open64)

int close(int fd) {
    REAL(int, "close", int);
    if (name_of(fd)) {
        free(names[fd]);
        names[fd] = NULL;
    }
    return real(fd);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    const char *name = name_of(fd);
    if (name && fails(WRITE)) return -1;
    ssize_t written = real(fd, data, size, offset);
    if (name && written > 0) record('W', name, offset, data, written);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite64(fd, data, size, offset);
}

static int synced(int fd, int (*real)(int)) {
    const char *name = name_of(fd);
    if (!name) return real(fd);
    if (fails(SYNC)) {
        int error = errno;
        record('F', name, 0, NULL, 0);
        errno = error;
        return -1;
    }
    int result = real(fd);
    if (result == 0) record('S', name, 0, NULL, 0);
    return result;
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return synced(fd, real);
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return synced(fd, real);
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    const char *name = name_of(fd);
    if (name && fails(TRUNCATE)) return -1;
    int result = real(fd, size);
    if (name && result == 0) record('T', name, size, NULL, 0);
    return result;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    int result = real(path);
    if (result == 0 && is_ours(path)) record('U', path, 0, NULL, 0);
    return result;
}

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    const char *name = name_of(fd);
    if (name && fails(WRITE)) return errno;
    return real(fd, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) { return posix_fallocate64(fd, offset, size); }
