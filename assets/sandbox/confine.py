# Runs a candidate: splits into a judge and a candidate, and confines both. Passed to `python3 -I -B -c` with candidate.py and
# judge.py in their places, and the settings as its argument. The process that Node starts becomes the judge: it alone holds the
# tests and file descriptor 3, on which it reports. Its child becomes the candidate: it executes the program and answers questions
# over a pipe. The fork comes before the tests are read, so they are not in the child's memory.
#
# What confines both, strongest first:
# - seccomp (docs.kernel.org/userspace-api/seccomp_filter): an allow-list. Numbers are those of
#   arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
# - Landlock (docs.kernel.org/userspace-api/landlock, Linux 5.13): reads of Python and of system libraries, no writes.
# - user, PID, network and IPC namespaces for the candidate: no other process has a number there.
# - resource limits (setrlimit). A file size of 0 bytes means that no file can be filled. Programs may start threads: their number
#   is limited in a namespace, and by the memory that their stacks are counted as.
# - an audit hook (PEP 578) where the kernel refuses nothing. Python code can evade it.
import ctypes, errno, io, json, os, pickle, resource, struct, sys, types

settings = json.loads(sys.argv[1])
limits, trust = settings["limits"], settings["trust"]
libc = ctypes.CDLL(None, use_errno=True)
linux = sys.platform == "linux" and sys.maxsize > 2**32
machine = os.uname().machine if linux else ""


def prctl(option, *values):
    return libc.prctl(ctypes.c_int(option), *[ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]])


def syscall(number, *values):
    return libc.syscall(ctypes.c_long(number), *values)


def limit(kind, value):
    try:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError):
        pass  # the probe finds out what holds


def enter_namespaces():
    # User, PID, network, IPC. Users are not mapped: the system may refuse that (AppArmor of Ubuntu 24.04), and files need it not.
    return libc.unshare(0x10000000 | 0x20000000 | 0x40000000 | 0x08000000) == 0


def landlock():
    version = syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    files = (1 << (16 if version >= 5 else 15 if version >= 3 else 14 if version >= 2 else 13)) - 1
    # Bits of LANDLOCK_ACCESS_FS: execute 0, write 1, read a file 2, read a folder 3.
    execute_and_read, on_file, null = 0b1101, 0b101, 0b110
    attributes = struct.pack("QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = syscall(444, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        return False
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    places += ["/usr", "/lib", "/lib64", "/nix", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"]
    places += ["/dev/urandom", "/dev/random", "/dev/zero", *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    allowed = [(place, execute_and_read) for place in set(places) - {"", "/"}] + [(os.devnull, null)]
    for place, access in allowed:
        try:
            handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if access == execute_and_read and not os.path.isdir(place):
            access = on_file
        rule = struct.pack("=Qi", access, handle)
        syscall(445, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(handle)
    held = syscall(446, ctypes.c_int(rules), ctypes.c_uint32(0)) == 0
    os.close(rules)
    return held


# What CPython needs once it is up, with the numbers on x86_64 and aarch64 (0: the call does not exist there).
CALLS = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, close 3 57, lseek 8 62, fstat 5 80, newfstatat 262 79,
statx 332 291, stat 4 0, lstat 6 0, access 21 0, faccessat 269 48, faccessat2 439 439, open 2 0, openat 257 56,
readlink 89 0, readlinkat 267 78, getdents64 217 61, getcwd 79 17, chdir 80 49, dup 32 23, dup2 33 0, dup3 292 24,
pipe2 293 59, poll 7 0, ppoll 271 73, select 23 0, pselect6 270 72,
mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, sigaltstack 131 132, restart_syscall 219 128,
setitimer 38 103, getitimer 36 102, alarm 37 0, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115,
nanosleep 35 101, gettimeofday 96 169, time 201 0, times 100 153, getrusage 98 165,
getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177,
getgroups 115 158, uname 63 160, sysinfo 99 179, sched_yield 24 124, sched_getaffinity 204 123, getcpu 309 168,
getrandom 318 278, futex 202 98, set_robust_list 273 99, rseq 334 293, wait4 61 260, exit 60 93, exit_group 231 94
"""
# What pthread_create of glibc and of musl asks for: a thread of this process, and nothing else. The flags of clone3 are in memory,
# where no filter sees them; both libraries take clone where the kernel does not know clone3.
CLONE, CLONE3, THREAD_FLAGS = ("clone", 56, 220), ("clone3", 435, 435), (0x3D0F00, 0x7D0F00)
THREADS = 64
COLUMN = {"x86_64": 1, "aarch64": 2}.get(machine)
FCNTL, PRLIMIT, KILL, TGKILL = ("fcntl", 72, 25), ("prlimit64", 302, 261), ("kill", 62, 129), ("tgkill", 234, 131)


def seccomp():
    column = COLUMN
    if column is None:
        return False
    LOAD, EQUAL, RETURN, REFUSE, DIE = 0x20, 0x15, 0x06, 0x00050000 | errno.EPERM, 0x80000000
    ALLOW, UNKNOWN = 0x7FFF0000, 0x00050000 | errno.ENOSYS
    # The x32 calls of x86_64 have numbers that are not on the list.
    code = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, (0, 0xC000003E, 0xC00000B7)[column]), (RETURN, 0, 0, DIE)]

    def allow(call, *words, answer=ALLOW):
        checks = [(0, int(call[column])), *words]
        for i, (offset, value) in enumerate(checks):
            code.extend([(LOAD, 0, 0, offset), (EQUAL, 0, 2 * (len(checks) - i) - 1, value)])
        code.append((RETURN, 0, 0, answer))

    for call in CALLS.split(","):
        if column == 1 or call.split()[2] != "0":
            allow(call.split())
    for command in (0, 1, 2, 3, 1030):  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; F_SETOWN sends signals
        allow(FCNTL, (24, command))
    allow(PRLIMIT, (16, 0), (32, 0), (36, 0))  # its own limits, to read
    for call in (KILL, TGKILL):  # itself, as abort() does
        allow(call, (16, os.getpid()))
    for flags in THREAD_FLAGS:
        allow(CLONE, (16, flags), (20, 0))
    allow(CLONE3, answer=UNKNOWN)
    code.append((RETURN, 0, 0, REFUSE))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
    return prctl(22, 2, ctypes.addressof(filters)) == 0


PROCESSES = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "pty.")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.link",
           "os.symlink", "os.utime", "os.setxattr", "os.removexattr", "shutil.")


def guard(event, values):
    if event.startswith("socket.") and not trust["network"]:
        raise PermissionError("the sandbox allows no network")
    if event.startswith(PROCESSES) and not trust["processes"]:
        raise PermissionError("the sandbox allows no other process")
    if trust["files"]:
        return
    if event == "ctypes.dlopen":
        raise PermissionError("the sandbox allows no foreign library")
    writes = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if event.startswith(CHANGES) or writes and values[0] != os.devnull and not isinstance(values[0], int):
        raise PermissionError("the sandbox allows no change of files")


def confine():
    limit(resource.RLIMIT_CPU, limits["cpu"])
    limit(resource.RLIMIT_AS, limits["memory"])
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 64)
    # Outside of a namespace it counts all processes of the user, and seccomp alone refuses new ones.
    filtered = settings["kernel"] and COLUMN is not None
    if isolated or not filtered:
        limit(resource.RLIMIT_NPROC, 2 + THREADS if filtered else 0)
    held = {"network": False, "processes": False, "files": False}
    if linux:
        prctl(38, 1)  # no new privileges
        held["files"] = settings["kernel"] and landlock()
        syscall(126 if machine == "x86_64" else 91, struct.pack("Ii", 0x20080522, 0), b"\0" * 24)  # no capabilities
        held["network"] = held["processes"] = settings["kernel"] and seccomp()
    if any(trust[name] and not held[name] for name in held):
        raise OSError("the confinement that was found when the sandbox was opened is gone")
    if not (settings["probe"] or all(trust.values())):
        sys.addaudithook(guard)


def die_with_parent():
    if linux:
        prctl(1, 9)


die_with_parent()
if os.getppid() != settings["parent"]:
    os._exit(1)
for handle in os.listdir("/dev/fd"):
    if int(handle) > 3:  # what a shell left open for layergraft is not for programs
        try:
            os.close(int(handle))
        except OSError:
            pass  # the listing's own
isolated = linux and settings["kernel"] and enter_namespaces()
if settings["isolated"] and not isolated:
    raise OSError("there is no namespace left for the program")
die_with_parent()  # a new user namespace forgets it
to_candidate, to_judge = os.pipe(), os.pipe()
nothing = os.open(os.devnull, os.O_RDONLY)
candidate = os.fork()

if candidate == 0:
    die_with_parent()
    os.dup2(nothing, 0)
    for handle in (nothing, 3, to_candidate[1], to_judge[0]):
        os.close(handle)
    requests, answers = open(to_candidate[0], "rb"), open(to_judge[1], "wb")
    confine()
    CANDIDATE
else:
    for handle in (nothing, to_candidate[0], to_judge[1]):
        os.close(handle)
    requests, answers = open(to_candidate[1], "wb"), open(to_judge[0], "rb")
    confine()
    JUDGE
