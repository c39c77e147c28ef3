# Evaluates the tests on what the candidate answers, and reports on file descriptor 3. An object of the candidate is a Remote: it
# can be called, read and iterated, but it does not compare or calculate, so an object that equals everything decides nothing.
# Names in tests mean what the program defines, except modules of the standard library, and builtins that the reference solution
# does not define: those are the judge's own.
import ast, builtins, importlib, signal

MAX_ANSWER = 2**24  # bytes: some 100 times the largest value in MBPP's tests


class Gone(BaseException):
    pass


class Remote:
    def __init__(self, number):
        object.__setattr__(self, "_number", number)

    def __call__(self, *values, **named):
        return ask("call", self, values, named)

    def __next__(self):
        return ask("next", self)

    def __eq__(self, other):
        return isinstance(other, Remote) and bool(ask("eq", self, other))

    def __hash__(self):
        return hash(self._number)

    def __iter__(self):
        items = ask("iter", self)
        return items if isinstance(items, Remote) else iter(items)


for action in ("getattr", "setattr", "getitem", "setitem", "len", "bool", "str", "repr"):
    setattr(Remote, f"__{action}__", lambda self, *values, action=action: ask(action, self, *values))


class Requests(pickle.Pickler):
    def persistent_id(self, value):
        return value._number if type(value) is Remote else None


MAKE = {
    "int": lambda text: int(text, 16), "complex": complex, "bytes": bytes.fromhex, "range": range,
    "Decimal": lambda text: importlib.import_module("decimal").Decimal(text),
    "Fraction": lambda text: importlib.import_module("fractions").Fraction(text), "object": Remote, "list": lambda *items: list(items), "tuple": lambda *items: items,
    "set": lambda *items: set(items), "frozenset": lambda *items: frozenset(items),
}


def decode(value):
    if not isinstance(value, list):
        return value
    kind, *items = value
    if kind == "dict":
        return {decode(key): decode(item) for key, item in items}
    return MAKE[kind](*map(decode, items))


def read_answer():
    line = answers.readline(MAX_ANSWER)
    if not line.endswith(b"\n"):
        if len(line) == MAX_ANSWER:
            raise MemoryError("it answered with a value of more than 16 MiB")
        raise Gone
    message = json.loads(line)
    if "error" not in message:
        return decode(message["value"])
    name, text, line = message["error"]
    name, text = str(name)[:100], str(text)[:300]  # what of it reaches a report
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = type(name, (Exception,), {})
    try:
        error = kind(text)
    except TypeError:  # UnicodeError and its like take more than a message
        error = type(name, (Exception,), {})(text)
    error.program_line = line if type(line) is int else 0  # a NaN is not JSON
    raise error


def ask(*request):
    buffer = io.BytesIO()
    Requests(buffer, 4).dump(request)
    try:
        requests.write(buffer.getvalue())
        requests.flush()
    except BrokenPipeError:
        raise Gone
    return read_answer()


def report(**message):
    os.write(3, (json.dumps(message) + "\n").encode())


def text_of(error):
    try:
        return str(error)[:300]
    except BaseException:
        return ""


def line_of(error, part):
    if part == "program":
        return getattr(error, "program_line", 0)
    line, trace = getattr(error, "lineno", 0) if isinstance(error, SyntaxError) else 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == part:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def names_of(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def definitions(source):
    tree = ast.parse(source, "reference")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = {node.name for node in tree.body if isinstance(node, kinds)}
    return named.union(*(names_of(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets))


def run_tests(tests, defined, reference):
    global part
    builtin, own, fetched = set(dir(builtins)), {"__name__": "tests"}, set()
    trees = []
    for part, source in tests:
        trees.append((part, ast.parse(source, part)))
    # A program that was asked for a function called sum defines one. One that defines set as well changes no test.
    under_test = defined - (builtin - definitions(reference))
    roots = {node.value.id for _, tree in trees for node in ast.walk(tree)
             if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    modules = roots & set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
    for part, tree in trees:
        for name in names_of(tree) & under_test - (set(own) - fetched):
            own[name] = importlib.import_module(name) if name in modules else ask("global", name)
            fetched.add(name)
        exec(compile(tree, part, "exec", dont_inherit=True), own)
        fetched -= {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}


part = "program"
try:
    job = json.loads(sys.stdin.buffer.read())
    read_answer()  # it is confined
    report(ready=candidate, isolated=isolated, version=sys.version.split()[0], executable=sys.executable)
    (_, program), *tests = job["parts"]
    defined = set(ask("run", "program", program))
    if settings["probe"]:
        report(probe=ask("call", ask("global", "probe"), (), {}))
        os._exit(0)
    run_tests(tests, defined, job["reference"])
    report(passed=True)
except Gone:
    status = os.waitpid(candidate, 0)[1]
    if os.WIFSIGNALED(status):
        report(passed=False, signal=signal.Signals(os.WTERMSIG(status)).name)
    else:
        report(passed=False, status=os.WEXITSTATUS(status))
except BaseException as error:
    report(passed=False, part=part, line=line_of(error, part), error=type(error).__name__, message=text_of(error))
os._exit(0)
