// clang-format off
/* Faults in a process's file operations, from outside: the program under test has no code for it.
 *
 *   LD_PRELOAD=build/libcrash_shim.so COLOSSAL_FAULT_PATH=step- COLOSSAL_FAULTS=fsync:3=kill PROGRAM
 *
 * COLOSSAL_FAULT_PATH   Only calls on paths that contain this text are counted, logged and disturbed
 *                       ("" or unset: all). A rename counts when either path does.
 * COLOSSAL_FAULTS       Comma-separated KIND:K[+][:WHEN]=ACTION. The K-th call of that kind (from 1,
 *                       counted in each process for itself) is disturbed; with "+" each later one too.
 *   KIND    open (for writing or creating), write (write, writev, pwrite, pwritev), fsync (and
 *           fdatasync), rename (and renameat, renameat2), resize (ftruncate, fallocate), mkdir,
 *           unlink (and unlinkat, rmdir), fork, or any: all of these counted together. A fork has no
 *           path: it counts whatever COLOSSAL_FAULT_PATH is, and "after" is in the child
 *   WHEN    before (default) the call, after it, or half: a write of half the bytes, then the action
 *           (for calls other than writes the same as before)
 *   ACTION  kill       SIGKILL to this process
 *           killgroup  SIGKILL to its whole process group
 *           stop       SIGSTOP to this process: it hangs
 *           slow       the call takes two seconds longer
 *           short      the write is cut to half and succeeds, as POSIX allows
 *           an errno   ENOSPC, EIO, EDQUOT, EROFS, EACCES, EINVAL, EINTR, ENOSYS or EAGAIN: the call
 *                      fails with it (after: although it was carried out)
 * COLOSSAL_FAULT_LOG    A file that gets one line "KIND PATH" per counted call before it is carried
 *                       out; a rename's line has both paths. Its own lines are not counted.
 *
 * Seen are calls that go through the dynamic linker: the program's and libstdc++'s
 * (std::filesystem, std::ofstream), not those within libc (fwrite's) nor raw system calls. Under
 * AddressSanitizer, add ASAN_OPTIONS=verify_asan_link_order=0.
 */
// clang-format on
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { K_OPEN, K_WRITE, K_FSYNC, K_RENAME, K_RESIZE, K_MKDIR, K_UNLINK, K_FORK, K_ANY, NUM_KINDS };
static const char* const kind_names[NUM_KINDS] = {"open",  "write",  "fsync", "rename", "resize",
                                                  "mkdir", "unlink", "fork",  "any"};

enum when { BEFORE, HALF, AFTER };
enum action { NONE, KILL, KILL_GROUP, STOP, SLOW, SHORT, FAIL };

struct fault {
  enum kind kind;
  long first;
  int repeated;
  enum when when;
  enum action action;
  int error;
};

/* What to do with one call. */
struct verdict {
  enum when when;
  enum action action;
  int error;
};

#define MAX_FAULTS 16
static struct fault faults[MAX_FAULTS];
static int num_faults;
static const char* path_text = "";
static int log_descriptor = -1;
static atomic_long counts[NUM_KINDS];

static void die(const char* message, const char* value) {
  fprintf(stderr, "crash_shim: %s: %s\n", message, value);
  _exit(99);
}

static int parse_action(const char* text, struct fault* fault) {
  static const struct {
    const char* name;
    enum action action;
    int error;
  } actions[] = {
      {"kill", KILL, 0},        {"killgroup", KILL_GROUP, 0}, {"stop", STOP, 0},        {"slow", SLOW, 0},
     
      {"short", SHORT, 0},      {"ENOSPC", FAIL, ENOSPC},     {"EIO", FAIL, EIO},
      {"EDQUOT", FAIL, EDQUOT}, {"EROFS", FAIL, EROFS},       {"EACCES", FAIL, EACCES},
      {"EINVAL", FAIL, EINVAL}, {"EINTR", FAIL, EINTR},       {"ENOSYS", FAIL, ENOSYS},
      {"EAGAIN", FAIL, EAGAIN},
  };
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; ++i) {
    if (strcmp(text, actions[i].name) == 0) {
      fault->action = actions[i].action;
      fault->error = actions[i].error;
      return 1;
    }
  }
  return 0;
}

static int parse_kind(const char* text, enum kind* kind) {
  for (int i = 0; i < NUM_KINDS; ++i) {
    if (strcmp(text, kind_names[i]) == 0) {
      *kind = (enum kind)i;
      return 1;
    }
  }
  return 0;
}

/* "fsync:3+:after=kill" */
static void parse_fault(const char* text) {
  char kind[16] = "", count[24] = "", when[16] = "before", action[16] = "";
  struct fault fault = {0};
  char* end = NULL;
  if (num_faults == MAX_FAULTS) die("more than 16 faults", text);
  if (sscanf(text, "%15[a-z]:%23[0-9+]:%15[a-z]=%15s", kind, count, when, action) != 4) {
    strcpy(when, "before");
    if (sscanf(text, "%15[a-z]:%23[0-9+]=%15s", kind, count, action) != 3) die("bad fault", text);
  }
  fault.first = strtol(count, &end, 10);
  fault.repeated = *end == '+';
  fault.when = strcmp(when, "after") == 0 ? AFTER : strcmp(when, "half") == 0 ? HALF : BEFORE;
  if (fault.when == BEFORE && strcmp(when, "before") != 0) die("bad moment in the fault", text);
  if (fault.first < 1 || !parse_kind(kind, &fault.kind) || !parse_action(action, &fault)) {
    die("bad fault", text);
  }
  faults[num_faults++] = fault;
}

__attribute__((constructor)) static void configure(void) {
  const char* path = getenv("COLOSSAL_FAULT_PATH");
  const char* list = getenv("COLOSSAL_FAULTS");
  const char* log = getenv("COLOSSAL_FAULT_LOG");
  if (path) path_text = path;
  if (list) {
    char* copy = strdup(list);
    char* rest = NULL;
    for (char* one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
      parse_fault(one);
    }
    free(copy);
  }
  if (log) {
    log_descriptor =
        (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_descriptor < 0) die("cannot open the log", log);
  }
}

static void act(const struct verdict* verdict) {
  if (verdict->action == KILL) kill(getpid(), SIGKILL);
  if (verdict->action == KILL_GROUP) kill(0, SIGKILL);
  if (verdict->action == STOP) raise(SIGSTOP);
  if (verdict->action == SLOW) sleep(2);
}

static void write_log(enum kind kind, const char* path, const char* other) {
  char line[2 * PATH_MAX + 32];
  const int length = snprintf(line, sizeof line, "%s %s%s%s\n", kind_names[kind], path,
                              other ? " " : "", other ? other : "");
  if (syscall(SYS_write, log_descriptor, line, (size_t)length) != length)
    die("log", strerror(errno));
}

/* Counts the call and says what becomes of it; does what must come before it. */
static struct verdict judge(enum kind kind, const char* path, const char* other) {
  struct verdict verdict = {BEFORE, NONE, 0};
  if (!strstr(path, path_text) && !(other && strstr(other, path_text))) return verdict;
  if (log_descriptor >= 0) write_log(kind, path, other);
  const long of_kind = atomic_fetch_add(&counts[kind], 1) + 1;
  const long of_any = atomic_fetch_add(&counts[K_ANY], 1) + 1;
  for (int i = 0; i < num_faults && verdict.action == NONE; ++i) {
    const struct fault* fault = &faults[i];
    if (fault->kind != K_ANY && fault->kind != kind) continue;
    const long count = fault->kind == K_ANY ? of_any : of_kind;
    if (count < fault->first || (count > fault->first && !fault->repeated)) continue;
    verdict.when = fault->when == HALF && kind != K_WRITE ? BEFORE : fault->when;
    verdict.action = fault->action;
    verdict.error = fault->error;
  }
  if (verdict.when == BEFORE) act(&verdict);
  return verdict;
}

/* The part of a write that is carried out under this verdict. */
static size_t granted(const struct verdict* verdict, size_t size) {
  return verdict->action == SHORT || (verdict->action != NONE && verdict->when == HALF)
             ? (size + 1) / 2
             : size;
}

static int fails_before(const struct verdict* verdict) {
  if (verdict->action != FAIL || verdict->when != BEFORE) return 0;
  errno = verdict->error;
  return 1;
}

static long finish(const struct verdict* verdict, long result) {
  if (verdict->when == BEFORE) return result;
  act(verdict);
  if (verdict->action != FAIL) return result;
  errno = verdict->error;
  return -1;
}

/* The path of an open descriptor, by the kernel's word; "" for sockets and the like is fine. */
static const char* path_of(int descriptor, char* buffer) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, buffer, PATH_MAX - 1);
  buffer[length < 0 ? 0 : length] = '\0';
  return buffer;
}

#define NEXT(name)               \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A function whose path is its argument or its descriptor's. */
#define INTERCEPT(kind, name, parameters, arguments, path, other) \
  int name parameters {                                           \
    NEXT(name);                                                   \
    char buffer[PATH_MAX];                                        \
    (void)buffer;                                                 \
    const struct verdict verdict = judge(kind, path, other);      \
    if (fails_before(&verdict)) return -1;                        \
    return (int)finish(&verdict, next arguments);                 \
  }

INTERCEPT(K_FSYNC, fsync, (int fd), (fd), path_of(fd, buffer), NULL)
INTERCEPT(K_FSYNC, fdatasync, (int fd), (fd), path_of(fd, buffer), NULL)
INTERCEPT(K_RESIZE, ftruncate, (int fd, off_t size), (fd, size), path_of(fd, buffer), NULL)
INTERCEPT(K_RESIZE, ftruncate64, (int fd, off64_t size), (fd, size), path_of(fd, buffer), NULL)
INTERCEPT(K_RESIZE, fallocate, (int fd, int mode, off_t offset, off_t size),
          (fd, mode, offset, size), path_of(fd, buffer), NULL)
INTERCEPT(K_RESIZE, fallocate64, (int fd, int mode, off64_t offset, off64_t size),
          (fd, mode, offset, size), path_of(fd, buffer), NULL)
INTERCEPT(K_RENAME, rename, (const char* from, const char* to), (from, to), from, to)
INTERCEPT(K_RENAME, renameat, (int a, const char* from, int b, const char* to), (a, from, b, to),
          from, to)
INTERCEPT(K_RENAME, renameat2, (int a, const char* from, int b, const char* to, unsigned flags),
          (a, from, b, to, flags), from, to)
INTERCEPT(K_MKDIR, mkdir, (const char* path, mode_t mode), (path, mode), path, NULL)
INTERCEPT(K_UNLINK, unlink, (const char* path), (path), path, NULL)
INTERCEPT(K_UNLINK, rmdir, (const char* path), (path), path, NULL)

pid_t fork(void) {
  NEXT(fork);
  const struct verdict verdict = judge(K_FORK, path_text, NULL);
  if (fails_before(&verdict)) return -1;
  const pid_t child = next();
  return child == 0 ? (pid_t)finish(&verdict, child) : child;
}

/* Relative to a directory's descriptor in recursive removal: the directory's path is the sign. */
int unlinkat(int directory, const char* name, int flags) {
  NEXT(unlinkat);
  char folder[PATH_MAX];
  char path[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s/%s",
           directory == AT_FDCWD || name[0] == '/' ? "" : path_of(directory, folder), name);
  const struct verdict verdict = judge(K_UNLINK, path, NULL);
  if (fails_before(&verdict)) return -1;
  return (int)finish(&verdict, next(directory, name, flags));
}

#define INTERCEPT_WRITE(name, parameters, arguments)                          \
  ssize_t name parameters {                                                   \
    NEXT(name);                                                               \
    char buffer[PATH_MAX];                                                    \
    const struct verdict verdict = judge(K_WRITE, path_of(fd, buffer), NULL); \
    if (fails_before(&verdict)) return -1;                                    \
    size = granted(&verdict, size);                                           \
    return (ssize_t)finish(&verdict, next arguments);                         \
  }

INTERCEPT_WRITE(write, (int fd, const void* data, size_t size), (fd, data, size))
INTERCEPT_WRITE(pwrite, (int fd, const void* data, size_t size, off_t offset),
                (fd, data, size, offset))
INTERCEPT_WRITE(pwrite64, (int fd, const void* data, size_t size, off64_t offset),
                (fd, data, size, offset))

/* Vectors are halved by their number of parts. */
#define INTERCEPT_VECTOR(name, parameters, arguments)                         \
  ssize_t name parameters {                                                   \
    NEXT(name);                                                               \
    char buffer[PATH_MAX];                                                    \
    const struct verdict verdict = judge(K_WRITE, path_of(fd, buffer), NULL); \
    if (fails_before(&verdict)) return -1;                                    \
    parts = (int)granted(&verdict, (size_t)parts);                            \
    return (ssize_t)finish(&verdict, next arguments);                         \
  }

INTERCEPT_VECTOR(writev, (int fd, const struct iovec* data, int parts), (fd, data, parts))
INTERCEPT_VECTOR(pwritev, (int fd, const struct iovec* data, int parts, off_t offset),
                 (fd, data, parts, offset))
INTERCEPT_VECTOR(pwritev64, (int fd, const struct iovec* data, int parts, off64_t offset),
                 (fd, data, parts, offset))

static int changes(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0; }

#define MODE_ARGUMENT(flags)             \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list list;                        \
    va_start(list, flags);               \
    mode = va_arg(list, mode_t);         \
    va_end(list);                        \
  }

#define INTERCEPT_OPEN(name, parameters, arguments)           \
  int name parameters {                                       \
    NEXT(name);                                               \
    MODE_ARGUMENT(flags)                                      \
    if (!changes(flags)) return next arguments;               \
    const struct verdict verdict = judge(K_OPEN, path, NULL); \
    if (fails_before(&verdict)) return -1;                    \
    return (int)finish(&verdict, next arguments);             \
  }

INTERCEPT_OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
INTERCEPT_OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
INTERCEPT_OPEN(openat, (int directory, const char* path, int flags, ...),
               (directory, path, flags, mode))
INTERCEPT_OPEN(openat64, (int directory, const char* path, int flags, ...),
               (directory, path, flags, mode))
