# Executes the program and answers the judge. Answers are data (numbers, text, containers of them) as JSON; any other object stays
# here, and the judge gets its number. Nothing here is trusted: the program can change all of it, and can by that change no more
# than what it answers.
import operator

module = types.ModuleType("candidate")
sys.modules["candidate"] = module
sys.argv = ["candidate"]
objects, numbers = [], {}


def encode(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return ["int", hex(int.__index__(value))]
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", bytes(value).hex()]
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return [kind.__name__, *map(encode, kind.__iter__(value))]
    if isinstance(value, (type({}.keys()), type({}.items()))):
        return ["set", *map(encode, value)]
    if isinstance(value, dict):
        return ["dict", *([encode(key), encode(dict.__getitem__(value, key))] for key in dict.__iter__(value))]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    kind = type(value)
    if (kind.__module__, kind.__name__) in (("decimal", "Decimal"), ("fractions", "Fraction")):
        return [kind.__name__, str(value)]
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return encode(value.item())
    number = numbers.setdefault(id(value), len(objects))
    if number == len(objects):
        objects.append(value)  # and so keeps its id
    return ["object", number]


class Requests(pickle.Unpickler):
    def persistent_load(self, number):
        return objects[number]


def run_program(name, source):
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    return [name for name in list(module.__dict__) if isinstance(name, str)]


def describe(error):
    line, trace = getattr(error, "lineno", 0) if isinstance(error, SyntaxError) else 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "program":
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        message = str(error)[:300]
    except BaseException:
        message = ""
    return [type(error).__name__, message, line]


ACTIONS = {
    "run": run_program,
    "global": lambda name: module.__dict__[name],
    "call": lambda function, values, named: function(*values, **named),
    "getattr": getattr, "setattr": setattr, "getitem": operator.getitem, "setitem": operator.setitem,
    "len": len, "iter": iter, "next": next, "bool": bool, "str": str, "repr": repr, "eq": operator.eq,
}


def answer(message):
    answers.write((json.dumps(message) + "\n").encode())
    answers.flush()


answer({"value": None})
while True:
    try:
        action, *values = Requests(requests).load()
    except EOFError:
        os._exit(0)
    try:
        outcome = {"value": encode(ACTIONS[action](*values))}
    except BaseException as error:
        outcome = {"error": describe(error)}
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    answer(outcome)
