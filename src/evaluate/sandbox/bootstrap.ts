// The Python program that confines itself and then executes a candidate. Text only: sandbox.ts starts and ends it.
// Not a safe place for code that was written to attack its host by someone able; see the guarantees in sandbox.ts.

/**
 * Passed to `python3 -I -B -c`. Reads one job (JSON) from standard input, confines itself, tells "ready" and then the
 * outcome on file descriptor 3, each with the job's nonce, which a program that merely ends early does not know.
 *
 * The layers, strongest first:
 * - Landlock (Linux 5.13, docs.kernel.org/userspace-api/landlock): reads and writes only where they are allowed.
 * - seccomp (docs.kernel.org/userspace-api/seccomp_filter): no sockets, no processes or threads, no signals to others,
 *   no change of modes or owners, which Landlock does not cover. Numbers of system calls are those of
 *   arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
 * - limits of resources (setrlimit).
 * - an audit hook (PEP 578) for what the kernel does not refuse: a guard against accidents, which Python code can evade.
 */
export const BOOTSTRAP = String.raw`
import ctypes, errno, json, os, resource, socket, struct, sys, types

job = json.loads(sys.stdin.buffer.read())
report_to, nonce, scratch, limits = 3, job["nonce"], os.path.realpath(job["scratch"]), job["limits"]
os.set_inheritable(report_to, False)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.umask(0o077)
write, leave, dumps = os.write, os._exit, json.dumps


def tell(**message):
    write(report_to, (dumps(dict(message, nonce=nonce)) + "\n").encode())


libc = ctypes.CDLL(None, use_errno=True)
linux = sys.platform == "linux" and sys.maxsize > 2**32
machine = os.uname().machine


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


# Readable places: Python itself and the libraries of the system, but no home folder and no /proc.
def readable():
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    places += ["/usr", "/lib", "/lib64", "/etc", "/opt", "/nix", "/dev/urandom", "/dev/random", "/dev/zero"]
    places += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return {place for place in places if place and place != "/"}


def landlock():
    version = syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    files = (1 << (16 if version >= 5 else 15 if version >= 3 else 14 if version >= 2 else 13)) - 1
    read, on_file = 0b1101, files & 0b1100000000000111
    attributes = struct.pack("QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = syscall(444, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        return
    allowed = [(place, read) for place in readable()] + [(scratch, files), (os.devnull, files)]
    for place, access in allowed:
        try:
            handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not os.path.isdir(place):
            access &= on_file
        rule = struct.pack("=Qi", access, handle)
        syscall(445, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(handle)
    syscall(446, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)


# System calls refused: network; processes and threads; other processes; modes, owners, times and names of files;
# what outlives the process (System V IPC, message queues, keys); ways around this filter (io_uring, bpf, namespaces).
REFUSED = {
    "x86_64": (0xC000003E, 62, 234, [
        41, 56, 57, 58, 59, 322, 435, 200, 101, 310, 311, 424, 434, 438, 129, 297, 76, 90, 91, 268, 452, 92, 93, 94, 260,
        132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 29, 64, 68, 240, 248, 249, 250, 425, 426, 427, 272,
        308, 165, 321, 298, 323, 141, 144, 251]),
    "aarch64": (0xC00000B7, 129, 131, [
        198, 220, 221, 281, 435, 130, 117, 270, 271, 424, 434, 438, 138, 240, 45, 52, 53, 452, 54, 55, 88, 5, 6, 7, 14,
        15, 16, 463, 466, 194, 190, 186, 180, 217, 218, 219, 425, 426, 427, 97, 268, 40, 280, 241, 282, 140, 119, 30]),
}


def seccomp():
    if machine not in REFUSED:
        return
    architecture, kill, tgkill, refused = REFUSED[machine]
    LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
    ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
    code = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    code += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, KILL)]  # the x32 numbers, another way in on x86_64
    for number in refused:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    for number in (kill, tgkill):  # to itself only, as abort() does
        code += [(EQUAL, 0, 4, number), (LOAD, 0, 0, 16), (EQUAL, 0, 1, os.getpid()), (RETURN, 0, 0, ALLOW)]
        code += [(RETURN, 0, 0, REFUSE)]
    code.append((RETURN, 0, 0, ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
    prctl(22, 2, ctypes.addressof(filters))


limit(resource.RLIMIT_CPU, limits["cpu"])
limit(resource.RLIMIT_AS, limits["memory"])
limit(resource.RLIMIT_FSIZE, limits["file"])
limit(resource.RLIMIT_CORE, 0)
limit(resource.RLIMIT_NOFILE, 64)
limit(resource.RLIMIT_NPROC, 0)
if linux:
    prctl(1, 9)  # die with the parent
    if os.getppid() != job["parent"]:
        leave(1)
    prctl(38, 1)  # no new privileges
    if job["kernel"]:
        landlock()
    if os.geteuid() == 0:  # no capabilities
        syscall(126 if machine == "x86_64" else 91, struct.pack("Ii", 0x20080522, 0), b"\0" * 24)
    if job["kernel"]:
        seccomp()


def refused_by_kernel(attempt):
    try:
        attempt()
    except (OSError, MemoryError):
        return True
    return False


def try_network():
    socket.socket().close()


def try_process():
    child = os.fork()
    if child == 0:
        leave(0)
    os.waitpid(child, 0)


def try_file():
    path = os.path.join(os.path.dirname(scratch), "layergraft-probe-" + nonce)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(path)


def try_memory():
    bytearray(2 * limits["memory"])


attempts = {"network": try_network, "processes": try_process, "files": try_file, "memory": try_memory}
if job["probe"]:
    kernel = {name: refused_by_kernel(attempt) for name, attempt in attempts.items()}
    tell(probe=kernel, version=sys.version.split()[0], executable=sys.executable, root=os.geteuid() == 0)
    leave(0)

kernel, real, inside, open_flags = job["trust"], os.path.realpath, scratch + os.sep, os.O_WRONLY | os.O_RDWR | os.O_CREAT
PROCESSES = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "pty.")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.link",
           "os.symlink", "os.utime", "os.setxattr", "os.removexattr", "shutil.")


def guard(event, values):
    if event.startswith("socket.") and not kernel["network"]:
        raise PermissionError("the sandbox allows no network")
    if event.startswith(PROCESSES) and not kernel["processes"]:
        raise PermissionError("the sandbox allows no other process")
    if kernel["files"]:
        return
    if event == "ctypes.dlopen":
        raise PermissionError("the sandbox allows no foreign library")
    changed = ()
    if event == "open" and isinstance(values[2], int) and values[2] & open_flags:
        changed = values[:1]
    elif event.startswith(CHANGES):
        changed = [value for value in values if isinstance(value, (str, bytes))]
    for path in changed:
        if isinstance(path, int):
            continue
        place = real(os.fsdecode(path))
        if place != os.devnull and not place.startswith(inside):
            raise PermissionError("the sandbox allows no change of files outside its scratch folder: " + place)


if not (kernel["network"] and kernel["processes"] and kernel["files"]):
    sys.addaudithook(guard)

module = types.ModuleType("candidate")
sys.modules["candidate"] = module
sys.argv = ["candidate"]
parts = job["parts"]
done = None


def text_of(error):
    try:
        return str(error)[:300]
    except BaseException:
        return ""


def line_of(error):
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == done:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


tell(ready=True)
try:
    for done, source in parts:
        exec(compile(source, done, "exec", dont_inherit=True), module.__dict__)
    outcome = {"passed": True}
except BaseException as error:
    line = getattr(error, "lineno", 0) if isinstance(error, SyntaxError) else line_of(error)
    outcome = {"passed": False, "part": done, "line": line, "error": type(error).__name__, "message": text_of(error)}
try:
    sys.stdout.flush()
except BaseException:
    pass
tell(**outcome)
leave(0)
`;
